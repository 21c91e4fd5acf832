//! A TCP proxy that knows just enough of Kafka to be cruel on purpose: it stands between clients and one broker, which
//! advertises the proxy's port.
//!
//! What it can do, to all connections or to one client's: cut, reset, stall one way (half-open), delay, throttle, be
//! down; and to requests of one kind, by the API key in their header: lose them, lose their reply, hold them back and
//! deliver them later, send them twice, damage their reply. No other byte is changed. What was done is counted, so that a
//! test can tell that its fault has happened.
#![allow(dead_code, reason = "each scenario uses its own part")]

mod frame;
mod pipe;
#[cfg(test)]
mod tests;

pub use frame::{Api, Head};

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream as BlockingStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// Which way bytes flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    ToBroker,
    ToClient,
}

/// What all connections suffer.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Weather {
    /// Bytes of this way are not even read: the other side sees a connection that lives and says nothing.
    pub stalled: Option<Way>,
    /// Each piece waits so long, and up to `jitter` longer.
    pub delay: Duration,
    pub jitter: Duration,
    pub bytes_per_second: Option<u64>,
    /// New connections are closed at once.
    pub refuses: bool,
}

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// The broker never sees it; the connection stays.
    Lose,
    /// The connection is cut before the broker sees it.
    Cut,
    /// The broker does it; the connection is cut before the client learns of it.
    LoseReply,
    /// Kept, until [`Proxy::release`] delivers it from a connection of its own. The client waits in vain.
    Hold,
    /// Sent twice in a row; both replies are delivered.
    Repeat,
    /// The broker never sees it; the client is told that all was done. Only for adding partitions or offsets
    /// to a transaction.
    Pretend,
    /// Sent after this long.
    Delay(Duration),
    /// One bit of its reply is flipped; a reply with hardly anything in it is spared, and the next one suffers.
    Damage,
}

/// Which requests something happens to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub api: Api,
    /// Only those whose client id begins so.
    pub client: String,
    /// This many pass first.
    pub after: u64,
    /// Then this many suffer.
    pub times: u64,
    pub act: Act,
}

impl Rule {
    /// The next request of a kind, whoever sends it.
    pub fn next(api: Api, act: Act) -> Self {
        Self { api, client: String::new(), after: 0, times: 1, act }
    }
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Alive,
    Closed,
    /// With a RST instead of a FIN.
    Reset,
}

#[derive(Debug)]
struct Connection {
    client: Arc<Mutex<String>>,
    fate: watch::Sender<Fate>,
}

/// What the proxy and its connections share.
#[derive(Debug)]
struct Shared {
    weather: watch::Sender<Weather>,
    upstream: Mutex<Option<SocketAddr>>,
    rules: Mutex<Vec<Rule>>,
    held: Mutex<Vec<Vec<u8>>>,
    counts: Mutex<Counts>,
    connections: Mutex<BTreeMap<u64, Connection>>,
}

/// What passed, and what was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    pub accepted: u64,
    pub refused: u64,
    pub ended: u64,
    /// Requests by API key.
    pub requests: BTreeMap<i16, u64>,
    /// Rules that were applied.
    pub acts: u64,
    /// Replies with a flipped bit.
    pub damaged: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Counts a request and says what is to happen to it.
    fn judge(&self, head: &Head) -> Option<Act> {
        *lock(&self.counts).requests.entry(head.api.0).or_default() += 1;
        let mut rules = lock(&self.rules);
        let rule = rules.iter_mut().find(|rule| rule.api == head.api && head.client.starts_with(&rule.client))?;
        if rule.after > 0 {
            rule.after -= 1;
            return None;
        }
        let act = rule.act;
        rule.times -= 1;
        rules.retain(|rule| rule.times > 0);
        lock(&self.counts).acts += 1;
        Some(act)
    }
}

/// A listening proxy. Its connections end when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Proxy {
    /// Listens on a free port. Connections are refused until it is told where the broker is.
    pub fn listen(port: u16) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("proxy")
            .enable_all()
            .build()
            .expect("a runtime");
        let shared = Arc::new(Shared {
            weather: watch::Sender::new(Weather::default()),
            upstream: Mutex::default(),
            rules: Mutex::default(),
            held: Mutex::default(),
            counts: Mutex::default(),
            connections: Mutex::default(),
        });
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", port))).expect("a free port");
        let port = listener.local_addr().expect("a bound address").port();
        runtime.spawn(accept(listener, shared.clone()));
        Self { port, shared, runtime: Some(runtime) }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where clients begin.
    pub fn brokers(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Names the broker behind it.
    pub fn point_at(&self, port: u16) {
        *lock(&self.shared.upstream) = Some(SocketAddr::from(([127, 0, 0, 1], port)));
    }

    pub fn set_weather(&self, weather: Weather) {
        self.shared.weather.send_replace(weather);
    }

    pub fn add_rule(&self, rule: Rule) {
        assert!(rule.times > 0, "a rule that never applies: {rule:?}");
        lock(&self.shared.rules).push(rule);
    }

    /// Forgets rules that have not been used up; returns how many.
    pub fn clear_rules(&self) -> usize {
        std::mem::take(&mut *lock(&self.shared.rules)).len()
    }

    /// Ends the connections of clients whose id begins so; the empty one is everybody's. Returns how many.
    pub fn cut(&self, client: &str) -> usize {
        self.end(client, Fate::Closed)
    }

    /// As [`Proxy::cut`], with a RST.
    pub fn reset(&self, client: &str) -> usize {
        self.end(client, Fate::Reset)
    }

    fn end(&self, client: &str, fate: Fate) -> usize {
        let connections = lock(&self.shared.connections);
        let hit = connections.values().filter(|connection| lock(&connection.client).starts_with(client));
        let mut ended = 0;
        for connection in hit {
            connection.fate.send_replace(fate);
            ended += 1;
        }
        ended
    }

    /// How many requests are being held.
    pub fn held(&self) -> usize {
        lock(&self.shared.held).len()
    }

    /// Delivers every held request, each from a connection of its own; returns the replies without their length.
    pub fn release(&self) -> Vec<Vec<u8>> {
        let held = std::mem::take(&mut *lock(&self.shared.held));
        let upstream = lock(&self.shared.upstream).expect("the broker is named before requests are held");
        held.into_iter().filter_map(|request| deliver(upstream, &request).ok()).collect()
    }

    pub fn counts(&self) -> Counts {
        lock(&self.shared.counts).clone()
    }

    /// Waits until something holds of the counts.
    pub fn wait_for(&self, what: &str, most: Duration, done: impl Fn(&Counts) -> bool) {
        let begun = Instant::now();
        while !done(&lock(&self.shared.counts)) {
            assert!(begun.elapsed() < most, "no {what} after {most:?}: {:?}", self.counts());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn deliver(upstream: SocketAddr, request: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = BlockingStream::connect(upstream)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(request)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut reply = vec![0; frame::length_of(length)?];
    stream.read_exact(&mut reply)?;
    Ok(reply)
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    for number in 0.. {
        let Ok((client, _)) = listener.accept().await else { continue };
        let upstream = *lock(&shared.upstream);
        let refuses = shared.weather.borrow().refuses;
        let (Some(upstream), false) = (upstream, refuses) else {
            lock(&shared.counts).refused += 1;
            continue;
        };
        lock(&shared.counts).accepted += 1;
        let (fate, fated) = watch::channel(Fate::Alive);
        let name = Arc::new(Mutex::new(String::new()));
        lock(&shared.connections).insert(number, Connection { client: name.clone(), fate });
        let shared = shared.clone();
        tokio::spawn(async move {
            pipe::run(client, upstream, &shared, name, fated).await;
            lock(&shared.connections).remove(&number);
            lock(&shared.counts).ended += 1;
        });
    }
}
