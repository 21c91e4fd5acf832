//! A TCP proxy between clients and one broker that injects faults. The broker advertises the proxy's port.
//!
//! Network conditions apply to all connections: stall in one direction (half-open), delay, throttle, refuse. Connections
//! of one client can be cut or reset. Rules inject faults into requests with a given API key: drop, drop the response,
//! hold and deliver later, duplicate, corrupt the response. All other bytes pass unchanged. The proxy counts the faults
//! that it injected, so that a test can verify that they happened.

mod frame;
mod pipe;
mod rules;
#[cfg(test)]
mod tests;

pub use frame::{Api, RequestHeader};
pub use rules::{Direction, FaultRule, NetworkConditions, ProxyCounts, RequestFault};

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream as BlockingStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// The lifecycle of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionState {
    Open,
    Closed,
    /// Closed with RST instead of FIN.
    Reset,
}

#[derive(Debug)]
struct Connection {
    client: Arc<Mutex<String>>,
    state: watch::Sender<ConnectionState>,
}

/// State shared by the proxy and its connections.
#[derive(Debug)]
struct Shared {
    conditions: watch::Sender<NetworkConditions>,
    upstream: Mutex<Option<SocketAddr>>,
    rules: Mutex<Vec<FaultRule>>,
    held: Mutex<Vec<Vec<u8>>>,
    counts: Mutex<ProxyCounts>,
    connections: Mutex<BTreeMap<u64, Connection>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Counts a request and returns the fault to inject.
    fn fault_for(&self, header: &RequestHeader) -> Option<RequestFault> {
        *lock(&self.counts).requests.entry(header.api.0).or_default() += 1;
        let fault = rules::apply_rule(&mut lock(&self.rules), header)?;
        lock(&self.counts).faults += 1;
        Some(fault)
    }
}

/// A listening proxy. Dropping it closes its connections.
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
    /// Listens on `port`, or on a free port if it is 0. Connections are refused until [`Proxy::set_upstream`] is called.
    pub fn listen(port: u16) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("proxy")
            .enable_all()
            .build()
            .expect("create a runtime");
        let shared = Arc::new(Shared {
            conditions: watch::Sender::new(NetworkConditions::default()),
            upstream: Mutex::default(),
            rules: Mutex::default(),
            held: Mutex::default(),
            counts: Mutex::default(),
            connections: Mutex::default(),
        });
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", port))).expect("bind the port");
        let port = listener.local_addr().expect("a bound address").port();
        runtime.spawn(accept(listener, shared.clone()));
        Self { port, shared, runtime: Some(runtime) }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The bootstrap address of clients behind the proxy.
    pub fn brokers(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Sets the port of the broker.
    pub fn set_upstream(&self, port: u16) {
        *lock(&self.shared.upstream) = Some(SocketAddr::from(([127, 0, 0, 1], port)));
    }

    pub fn set_conditions(&self, conditions: NetworkConditions) {
        self.shared.conditions.send_replace(conditions);
    }

    pub fn add_rule(&self, rule: FaultRule) {
        assert!(rule.times > 0, "this rule never applies: {rule:?}");
        lock(&self.shared.rules).push(rule);
    }

    /// Removes the rules that are not used up and returns their number.
    pub fn clear_rules(&self) -> usize {
        std::mem::take(&mut *lock(&self.shared.rules)).len()
    }

    /// Closes the connections of clients whose id has this prefix and returns their number.
    pub fn cut(&self, client: &str) -> usize {
        self.end_connections(client, ConnectionState::Closed)
    }

    /// Like [`Proxy::cut`], with RST.
    pub fn reset(&self, client: &str) -> usize {
        self.end_connections(client, ConnectionState::Reset)
    }

    fn end_connections(&self, client: &str, state: ConnectionState) -> usize {
        let connections = lock(&self.shared.connections);
        let matching = connections.values().filter(|connection| lock(&connection.client).starts_with(client));
        let mut ended = 0;
        for connection in matching {
            connection.state.send_replace(state);
            ended += 1;
        }
        ended
    }

    /// The number of held requests.
    pub fn held(&self) -> usize {
        lock(&self.shared.held).len()
    }

    /// Sends every held request on a new connection and returns the responses without their length.
    pub fn release(&self) -> Vec<Vec<u8>> {
        let held = std::mem::take(&mut *lock(&self.shared.held));
        let upstream = lock(&self.shared.upstream).expect("an upstream");
        held.into_iter().filter_map(|request| exchange(upstream, &request).ok()).collect()
    }

    pub fn counts(&self) -> ProxyCounts {
        lock(&self.shared.counts).clone()
    }

    /// Waits until the counts satisfy a condition.
    #[track_caller]
    pub fn wait_for(&self, expectation: &str, timeout: Duration, condition: impl Fn(&ProxyCounts) -> bool) {
        let begun = Instant::now();
        while !condition(&lock(&self.shared.counts)) {
            assert!(begun.elapsed() < timeout, "{expectation}: not within {timeout:?}: {:?}", self.counts());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn exchange(upstream: SocketAddr, request: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = BlockingStream::connect(upstream)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(request)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut response = vec![0; frame::frame_length(length)?];
    stream.read_exact(&mut response)?;
    Ok(response)
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    for number in 0.. {
        let Ok((client, _)) = listener.accept().await else { continue };
        let upstream = *lock(&shared.upstream);
        let is_refused = shared.conditions.borrow().refuses_connections;
        let (Some(upstream), false) = (upstream, is_refused) else {
            lock(&shared.counts).refused += 1;
            continue;
        };
        lock(&shared.counts).accepted += 1;
        let (state, state_changes) = watch::channel(ConnectionState::Open);
        let client_id = Arc::new(Mutex::new(String::new()));
        lock(&shared.connections).insert(number, Connection { client: client_id.clone(), state });
        let shared = shared.clone();
        tokio::spawn(async move {
            pipe::run(client, upstream, &shared, client_id, state_changes).await;
            lock(&shared.connections).remove(&number);
            lock(&shared.counts).ended += 1;
        });
    }
}
