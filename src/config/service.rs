//! The keys of the service itself: logging, HTTP, checkpoints and record limits.

use super::composite::Optional;
use super::declare::{OneOf, choice, section};
use super::scalars::{DurationRange, FilePath, IntegerRange, ListenAddress, SizeRange};

const HOUR_MS: u64 = 3_600_000;

section! {
    /// Logging.
    pub struct LogConfig {
        /// `pretty` for people, `json` for machines: one object per line.
        format: OneOf<LogFormat> = "pretty";
        /// The lowest level that is logged.
        level: OneOf<LogLevel> = "info";
    }
}

choice! {
    /// The format of log lines.
    pub enum LogFormat {
        Pretty = "pretty",
        Json = "json",
    }
}

choice! {
    /// The lowest level that is logged.
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
    /// The HTTP server and its limits.
    pub struct HttpConfig {
        /// The address of the API. Port 0 selects any free port.
        listen: ListenAddress = "127.0.0.1:8080";
        /// A separate address for `/metrics`, `/livez` and `/readyz`, without TLS and without tokens, so that they need not be
        /// public. Without it they are served on `listen`, where `/metrics` requires a token if tokens are configured.
        admin_listen: Optional<ListenAddress>, eg "127.0.0.1:9090";
        /// The file with the tokens that clients send as `authorization: Bearer TOKEN`. Each line has a name, a scope (`read`,
        /// or `write`, which includes `read`), and the token or `sha256:` and its hash. The file is reloaded when it changes.
        tokens_file: Optional<FilePath>, eg "/run/secrets/ebb/tokens";
        /// Where clients may connect from while no tokens are configured: `loopback`, or `anywhere` if the network restricts
        /// access. Clients with a certificate signed by `tls.client_ca` may connect from anywhere.
        without_tokens: OneOf<AnonymousAccess> = "loopback";
        /// TLS on `listen`. The files are reloaded when they change.
        tls: Optional<TlsConfig>, eg "{certificate: /run/secrets/ebb/tls.crt, key: /run/secrets/ebb/tls.key}";
        /// The largest request body. It must hold a batch of up to 10,000 events.
        max_body: SizeRange<1024, {1 << 30}> = "8MiB";
        /// The maximum time from the end of the request head to the response, including the request body.
        request_timeout: DurationRange<10, HOUR_MS> = "10s";
        /// The maximum time to receive the head of a request.
        header_timeout: DurationRange<10, HOUR_MS> = "5s";
        /// How long an idle connection is kept open.
        idle_timeout: DurationRange<10, HOUR_MS> = "30s";
        /// The maximum number of concurrent connections; further connections are closed.
        max_connections: IntegerRange<1, 1_000_000> = "4096";
        /// How long requests in flight may take to finish during shutdown.
        drain: DurationRange<0, HOUR_MS> = "10s";
    }
}

choice! {
    /// Where clients without a token may connect from.
    pub enum AnonymousAccess {
        Loopback = "loopback",
        Anywhere = "anywhere",
    }
}

section! {
    /// The PEM files of the TLS server.
    pub struct TlsConfig {
        /// The certificate chain, beginning with the server's certificate.
        certificate: FilePath, eg "/run/secrets/ebb/tls.crt";
        /// The private key of the certificate.
        key: FilePath, eg "/run/secrets/ebb/tls.key";
        /// Certificate authorities for client certificates. With it every client must present a certificate that one of them
        /// signed.
        client_ca: Optional<FilePath>, eg "/run/secrets/ebb/ca.crt";
    }
}

impl HttpConfig {
    /// Whether clients on other machines could use the API without being authenticated, and `without_tokens` does not
    /// permit that.
    pub(super) fn allows_anonymous_remote_clients(&self) -> bool {
        let verifies_clients = self.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        !self.listen.ip().to_canonical().is_loopback()
            && self.tokens_file.is_none()
            && !verifies_clients
            && self.without_tokens == AnonymousAccess::Loopback
    }
}

section! {
    /// Checkpoints of the shards.
    pub struct CheckpointConfig {
        /// The interval between checkpoints of a shard, and the most that has to be replayed after a crash.
        every: DurationRange<10, HOUR_MS> = "10s";
        /// How long a write to the store may take before the store is considered failed.
        deadline: DurationRange<100, HOUR_MS> = "10s";
        /// How many checkpoints of each shard are kept.
        generations: IntegerRange<2, 16> = "3";
    }
}

section! {
    /// Limits on a record. A record that exceeds one is `rejected(limits)`.
    pub struct LimitsConfig {
        /// Size of a record.
        record: SizeRange<64, {2 << 20}> = "1MiB";
        /// Nesting depth of objects and lists.
        depth: IntegerRange<1, 120> = "64";
        /// Number of fields in all objects of the record.
        fields: IntegerRange<1, 1_000_000> = "1024";
        /// Length of a field name.
        key: SizeRange<1, {1 << 20}> = "1KiB";
    }
}
