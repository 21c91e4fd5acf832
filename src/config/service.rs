//! The keys of the service itself: logging, HTTP, checkpoints and the limits of a record.

use super::declare::{choice, section};
use super::kinds::Maybe;
use super::scalars::{Address, Count, Duration, Size};

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
        /// Where `/metrics`, `/livez` and `/readyz` are answered instead, so that they need not be public.
        admin_listen: Maybe<Address>, eg "127.0.0.1:9090";
        /// The largest request body. A batch of 10,000 events must fit.
        max_body: Size<1024, {1 << 30}> = "8MiB";
        /// How long a request may take, from its first byte to the answer.
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
