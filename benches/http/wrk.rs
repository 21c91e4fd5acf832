//! Load generation with wrk, and its measurements.

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::BATCH;
use super::servers::{Server, pinned};

/// Number of different items in single questions, and of different batches.
const ITEMS: usize = 1_000;
const BATCHES: usize = 16;

/// One run of wrk.
pub struct Load {
    pub script: PathBuf,
    pub connections: usize,
    pub duration: Duration,
}

/// The result of a run.
#[derive(Debug, Clone, Copy)]
pub struct Measurement {
    /// Requests per second.
    pub rate: f64,
    pub p99: Duration,
    /// Responses other than 200, and failed connections.
    pub failures: u64,
}

/// Lua scripts for wrk in a temporary directory.
pub struct Traffic(TempDir);

pub fn is_installed() -> bool {
    Command::new("wrk").arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

fn event(number: usize) -> String {
    format!(
        r#"{{"ip":"10.{}.{}.{}","ad":"ad-{:06}","user":"u-{:08x}"}}"#,
        number >> 16 & 255,
        number >> 8 & 255,
        number & 255,
        number * 7 % 5_000,
        number * 2_654_435_761 % (1 << 32)
    )
}

fn batch(first: usize) -> String {
    let events: Vec<String> = (first..first + BATCH).map(event).collect();
    events.join(",")
}

impl Traffic {
    pub fn new() -> Self {
        let traffic = Self(tempfile::tempdir().expect("a directory for scripts"));
        traffic.write("single.lua", (0..ITEMS).map(|item| format!(r#"{{"event":{}}}"#, event(item))), None);
        let batches = (0..BATCHES).map(|number| format!(r#"{{"events":[{}]}}"#, batch(number * BATCH)));
        traffic.write("batches.lua", batches, None);
        traffic
    }

    /// A script that sends the bodies in turn, with an optional mean pause in ms.
    fn write(&self, name: &str, bodies: impl Iterator<Item = String>, pause_ms: Option<f64>) -> PathBuf {
        let mut lua = String::from(
            "wrk.method = \"POST\"\nwrk.headers[\"content-type\"] = \"application/json\"\nlocal bodies = {\n",
        );
        for body in bodies {
            let _ = writeln!(lua, "[==[{body}]==],");
        }
        lua += "}\nlocal all = {}\ninit = function() for i, body in ipairs(bodies) do all[i] = wrk.format(nil, nil, nil, body) end end\n";
        lua += "local turn = 0\nrequest = function() turn = turn % #all + 1; return all[turn] end\n";
        if let Some(pause_ms) = pause_ms {
            let _ =
                writeln!(lua, "delay = function() return math.floor(math.random() * {:.3} + 0.5) end", 2.0 * pause_ms);
        }
        let path = self.0.path().join(name);
        std::fs::write(&path, lua).expect("a directory of its own can be written");
        path
    }

    pub fn single(&self) -> PathBuf {
        self.0.path().join("single.lua")
    }

    pub fn batches(&self) -> PathBuf {
        self.0.path().join("batches.lua")
    }

    /// Single questions at about `rate` per second over all connections.
    pub fn paced(&self, connections: usize, rate: f64) -> PathBuf {
        let bodies = (0..ITEMS).map(|item| format!(r#"{{"event":{}}}"#, event(item)));
        self.write("paced.lua", bodies, Some(1e3 * connections as f64 / rate))
    }

    /// Records every other batch, so that half of the questions are about known items.
    pub fn warm(&self, server: &Server) {
        for number in (0..BATCHES).step_by(2) {
            let body = format!(r#"{{"events":[{}],"record":true}}"#, batch(number * BATCH));
            let mut socket = TcpStream::connect(server.address).expect("the server listens");
            let head = "POST /v1/streams/clicks/decide HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n";
            write!(socket, "{head}connection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
                .expect("it reads");
            let mut answer = String::new();
            socket.read_to_string(&mut answer).expect("it answers");
            assert!(answer.starts_with("HTTP/1.1 200"), "{}", answer.lines().next().unwrap_or_default());
        }
    }
}

pub fn run(url: &str, load: Load, core: Option<usize>) -> Measurement {
    let mut command = pinned("wrk", core);
    command.args(["-t1", "--latency", "--timeout", "10s", "-c", &load.connections.to_string()]);
    command.arg(format!("-d{}s", load.duration.as_secs())).arg("-s").arg(&load.script).arg(url);
    let output = command.output().expect("wrk can be started");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    parse(&text).unwrap_or_else(|| panic!("unexpected output of wrk:\n{text}"))
}

fn parse(text: &str) -> Option<Measurement> {
    let after = |label: &str| text.lines().find_map(|line| line.trim().strip_prefix(label)).map(str::trim);
    let broken = after("Socket errors:").map_or(0, |counts| {
        counts.split(|c: char| !c.is_ascii_digit()).filter_map(|count| count.parse::<u64>().ok()).sum()
    });
    let other: u64 = after("Non-2xx or 3xx responses:").map_or(Some(0), |count| count.parse().ok())?;
    Some(Measurement {
        rate: after("Requests/sec:")?.parse().ok()?,
        p99: duration(after("99%")?)?,
        failures: broken + other,
    })
}

/// Parses a duration of wrk: `890.00us`, `1.29ms`, `1.01s`.
fn duration(text: &str) -> Option<Duration> {
    let split = text.find(|c: char| c.is_ascii_alphabetic())?;
    let number: f64 = text[..split].parse().ok()?;
    let unit = match &text[split..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        _ => return None,
    };
    Some(Duration::from_secs_f64(number * unit))
}
