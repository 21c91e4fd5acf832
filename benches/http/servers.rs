//! The service and the echo server, each in its own process.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use axum::routing::post;
use axum::{Json, Router};
use tempfile::TempDir;

/// Environment variable with the address, which makes this binary the echo server.
pub const ECHO: &str = "EBB_BENCH_ECHO";
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A server process; killed when dropped.
pub struct Server {
    pub address: SocketAddr,
    child: Child,
    _dir: TempDir,
}

/// The cores of the servers and of wrk; `None` on a machine with one core.
pub fn cores() -> (Option<usize>, Option<usize>) {
    match std::thread::available_parallelism().map_or(1, usize::from) {
        1 => (None, None),
        _ => (Some(0), Some(1)),
    }
}

/// A command pinned to a core, with the maximum number of open files.
pub fn pinned(program: &str, core: Option<usize>) -> Command {
    let mut command = Command::new("sh");
    let limit = "ulimit -n $(ulimit -Hn) 2>/dev/null; exec \"$@\"";
    command.args(["-c", limit, "sh"]);
    if let Some(core) = core {
        command.args(["taskset", "-c", &core.to_string()]);
    }
    command.arg(program);
    command
}

impl Server {
    /// A bare axum server that parses JSON and returns it.
    pub fn echo(core: Option<usize>) -> Self {
        let own = std::env::current_exe().expect("this binary has a path");
        Self::start("/", |address, _| {
            let mut command = pinned(&own.to_string_lossy(), core);
            command.env(ECHO, address.to_string());
            command
        })
    }

    pub fn ebb(core: Option<usize>) -> Self {
        Self::start("/readyz", |address, dir| {
            let file = dir.path().join("ebb.yaml");
            let data = dir.path().join("data");
            let yaml = format!(
                "data_dir: {}\nhttp: {{listen: '{address}'}}\nlog: {{level: warn}}\nstreams:\n  clicks: {{event: {{item: [ip, \
                 ad, user]}}, dedup: {{window: 24h, memory: 64MiB}}}}\n",
                data.display()
            );
            std::fs::write(&file, yaml).expect("a directory of its own can be written");
            let mut command = pinned(env!("CARGO_BIN_EXE_ebb"), core);
            command.arg("serve").arg(file);
            command
        })
    }

    fn start(probe: &str, command: impl FnOnce(SocketAddr, &TempDir) -> Command) -> Self {
        let dir = tempfile::tempdir().expect("a directory for the server");
        let address = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port");
        let child = command(address, &dir).stdin(Stdio::null()).spawn().expect("the server can be started");
        let server = Self { address, child, _dir: dir };
        let started = Instant::now();
        while !server.answers(probe) {
            assert!(started.elapsed() < START_TIMEOUT, "the server did not start in time");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    fn answers(&self, probe: &str) -> bool {
        let ask = || -> std::io::Result<String> {
            let mut socket = TcpStream::connect(self.address)?;
            socket.set_read_timeout(Some(Duration::from_secs(5)))?;
            write!(socket, "GET {probe} HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n")?;
            let mut answer = String::new();
            socket.read_to_string(&mut answer)?;
            Ok(answer)
        };
        // The echo server has no route at `/`: a 404 shows that it is up.
        ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200") || answer.starts_with("HTTP/1.1 404"))
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn decide_url(&self) -> String {
        self.url("/v1/streams/clicks/decide")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails if the process has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves until the process is killed.
pub fn echo(address: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(address).await.expect("the port is free");
        let echo = post(async |Json(value): Json<serde_json::Value>| Json(value));
        axum::serve(listener, Router::new().route("/echo", echo)).await.expect("the echo serves");
    });
}
