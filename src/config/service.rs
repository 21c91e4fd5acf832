//! The keys of the service itself: logging, HTTP, checkpoints and the limits of a record.

use super::declare::{choice, section};
use super::kinds::Maybe;
use super::scalars::{Address, Count, Duration, FilePath, Size};

const HOUR: u64 = 3_600_000;

section! {
    /// What is logged, and how.
    pub struct Log {
        /// `pretty` for people, `json` for machines: one object a line.
        format: LogFormat = "pretty";
        /// The least important thing that is logged.
        level: LogLevel = "info";
    }
}

choice! {
    /// How a log line looks.
    pub enum LogFormat {
        Pretty = "pretty",
        Json = "json",
    }
}

choice! {
    /// How important a log line must be.
    pub enum LogLevel {
        Off = "off",
        Error = "error",
        Warn = "warn",
        Info = "info",
        Debug = "debug",
        Trace = "trace",
    }
}

section! {
    /// The HTTP service and its limits.
    pub struct Http {
        /// Where questions and events are answered. Port 0 takes any free port.
        listen: Address = "127.0.0.1:8080";
        /// Where `/metrics`, `/livez` and `/readyz` are answered instead, in the clear and without tokens, so that they need
        /// not be public. Without it they are answered with the rest, `/metrics` only with a token where there are any.
        admin_listen: Maybe<Address>, eg "127.0.0.1:9090";
        /// The file with the tokens that callers must send as `authorization: Bearer TOKEN`. One a line: a name, `read` or
        /// `write` (which includes `read`), and the token, or `sha256:` and its hash. Read again when it changes.
        tokens_file: Maybe<FilePath>, eg "/run/secrets/ebb/tokens";
        /// Where callers may come from while there are no tokens: `loopback`, or `anywhere` when the network itself keeps
        /// strangers out. Those whose certificates `tls.client_ca` signed are no strangers.
        without_tokens: WithoutTokens = "loopback";
        /// Encrypts `listen`. Files are read again when they change.
        tls: Maybe<Tls>, eg "{certificate: /run/secrets/ebb/tls.crt, key: /run/secrets/ebb/tls.key}";
        /// The largest request body. A batch of 10,000 events must fit.
        max_body: Size<1024, {1 << 30}> = "8MiB";
        /// How long a request may take, from the end of its head to the answer, its body included.
        request_timeout: Duration<10, HOUR> = "10s";
        /// How long a client may take to send the head of a request.
        header_timeout: Duration<10, HOUR> = "5s";
        /// How long a connection may wait for its next request.
        idle_timeout: Duration<10, HOUR> = "30s";
        /// How many connections are served at once; more are refused.
        max_connections: Count<1, 1_000_000> = "4096";
        /// How long requests in flight may finish after a stop was asked for.
        drain: Duration<0, HOUR> = "10s";
    }
}

choice! {
    /// From where callers need no token.
    pub enum WithoutTokens {
        Loopback = "loopback",
        Anywhere = "anywhere",
    }
}

section! {
    /// The PEM files of a TLS server.
    pub struct Tls {
        /// The certificate, and after it those that lead to its authority.
        certificate: FilePath, eg "/run/secrets/ebb/tls.crt";
        /// Its private key.
        key: FilePath, eg "/run/secrets/ebb/tls.key";
        /// Authorities one of which must have signed the certificate that a client shows. Without it clients need none.
        client_ca: Maybe<FilePath>, eg "/run/secrets/ebb/ca.crt";
    }
}

impl Http {
    /// Whether anybody could ask and record.
    pub(super) fn is_open_to_strangers(&self) -> bool {
        let knows_clients = self.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        !self.listen.ip().to_canonical().is_loopback()
            && self.tokens_file.is_none()
            && !knows_clients
            && self.without_tokens == WithoutTokens::Loopback
    }
}

section! {
    /// When shards are saved.
    pub struct Checkpoint {
        /// How often each shard is saved. A crash replays at most this much of the log.
        every: Duration<10, HOUR> = "10s";
        /// How long one write of the store may take before the store is given up.
        deadline: Duration<100, HOUR> = "10s";
        /// How many saves of each shard are kept.
        generations: Count<2, 16> = "3";
    }
}

section! {
    /// What a record may be at most; larger ones end as `rejected(limits)`.
    pub struct Limits {
        /// Bytes of a record.
        record: Size<64, {2 << 20}> = "1MiB";
        /// How deep its objects and lists nest.
        depth: Count<1, 120> = "64";
        /// How many fields all its objects have together.
        fields: Count<1, 1_000_000> = "1024";
        /// Bytes of one field name.
        key: Size<1, {1 << 20}> = "1KiB";
    }
}
