//! A service on a real socket, and raw TCP clients.

use std::io::ErrorKind::WouldBlock;
use std::net::SocketAddr;
use std::time::Duration;

use ebb::http::{HttpLimits, Listener, Routes, ServerTls, serve};
use ebb::metrics::Metrics;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::support::{Service, event};

/// Longer than any timeout under test: an operation that takes this long hangs.
pub const HANG_TIMEOUT: Duration = Duration::from_secs(20);
/// A timeout under test.
pub const SHORT: Duration = Duration::from_millis(500);

pub struct Server {
    pub service: Service,
    pub address: SocketAddr,
    shutdown: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

/// Timeouts that no test reaches by accident.
pub fn no_timeouts() -> HttpLimits {
    HttpLimits {
        request_timeout: HANG_TIMEOUT * 3,
        header_timeout: HANG_TIMEOUT * 3,
        first_byte_timeout: HANG_TIMEOUT * 3,
        idle_timeout: HANG_TIMEOUT * 3,
        drain: HANG_TIMEOUT * 3,
        ..HttpLimits::default()
    }
}

impl Server {
    pub async fn start(limits: HttpLimits) -> Self {
        Self::with_tls(limits, |_| None).await
    }

    /// With the TLS configuration that `tls` returns for the metrics of the service.
    pub async fn with_tls(limits: HttpLimits, tls: impl FnOnce(&Metrics) -> Option<ServerTls>) -> Self {
        let service = Service::with_limits(limits).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, tls) = (listener.local_addr().unwrap(), tls(&service.api.metrics));
        let (shutdown, stopped) = oneshot::channel::<()>();
        let routes = Routes::all(service.api.clone());
        let serving = tokio::spawn(serve(Listener { socket: listener, tls }, routes, async {
            let _ = stopped.await;
        }));
        Self { service, address, shutdown, serving }
    }

    pub async fn connect(&self) -> Client {
        Client(TcpStream::connect(self.address).await.unwrap())
    }

    /// Sends bytes on a new connection and returns everything received until it is closed.
    pub async fn exchange(&self, bytes: &[u8]) -> String {
        let mut client = self.connect().await;
        client.send(bytes).await;
        client.rest().await
    }

    /// Sends a valid request on a new connection.
    pub async fn assert_serving(&self) {
        let answer = self.exchange(decision("connection: close\r\n").as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains(r#"{"verdict":"unique","#), "{answer}");
    }

    pub fn timeouts(&self, phase: &str) -> u64 {
        self.service.api.metrics.http_timeouts.with_label_values(&[phase]).get()
    }

    pub fn shut_down(self) -> (JoinHandle<()>, Service) {
        self.shutdown.send(()).unwrap();
        (self.serving, self.service)
    }
}

/// A valid request with additional header lines.
pub fn decision(headers: &str) -> String {
    let body = format!(r#"{{"event":{}}}"#, event("a", 0));
    post(&format!("content-length: {}\r\n{headers}", body.len()), &body)
}

pub fn post(headers: &str, body: &str) -> String {
    format!(
        "POST /v1/streams/clicks/decide HTTP/1.1\r\nhost: ebb\r\ncontent-type: application/json\r\n{headers}\r\n{body}"
    )
}

pub struct Client(pub TcpStream);

impl Client {
    /// Sends as much as the server accepts: it may have closed the connection already.
    pub async fn send(&mut self, bytes: &[u8]) {
        timeout(HANG_TIMEOUT, self.write(bytes)).await.expect("the server reads or closes");
    }

    /// Whether everything was sent.
    pub async fn write(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            self.0.writable().await.unwrap();
            match self.0.try_write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == WouldBlock => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Empty when the connection is closed or reset.
    async fn read(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; 64 << 10];
        loop {
            self.0.readable().await.unwrap();
            match self.0.try_read(&mut bytes) {
                Err(error) if error.kind() == WouldBlock => {}
                read => {
                    bytes.truncate(read.unwrap_or(0));
                    return bytes;
                }
            }
        }
    }

    /// Everything received until the connection is closed.
    pub async fn rest(&mut self) -> String {
        let reading = async {
            let mut all = Vec::new();
            loop {
                let more = self.read().await;
                if more.is_empty() {
                    return String::from_utf8_lossy(&all).into_owned();
                }
                all.extend(more);
            }
        };
        timeout(HANG_TIMEOUT, reading).await.expect("the server closes the connection")
    }

    /// What is received within `wait`.
    pub async fn within(&mut self, wait: Duration) -> ClientInput {
        match timeout(wait, self.read()).await {
            Err(_) => ClientInput::Nothing,
            Ok(bytes) if bytes.is_empty() => ClientInput::End,
            Ok(bytes) => ClientInput::Bytes(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    /// One response on a connection that stays open.
    pub async fn answer(&mut self) -> String {
        let mut text = String::new();
        loop {
            match self.within(HANG_TIMEOUT).await {
                ClientInput::Bytes(more) => text += &more,
                other => panic!("{other:?} after {text:?}"),
            }
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
                if body.len() >= length.parse().unwrap() {
                    return text;
                }
            }
        }
    }
}

#[derive(Debug, PartialEq)]
pub enum ClientInput {
    Nothing,
    Bytes(String),
    End,
}

/// Polls a condition that no message announces.
pub async fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let waiting = async {
        while !check() {
            tokio::task::yield_now().await;
        }
    };
    timeout(HANG_TIMEOUT, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}
