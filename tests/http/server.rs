//! A service on a real socket, and raw clients.

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

/// Longer than any limit of the tests: what takes this long has no end.
pub const FOR_EVER: Duration = Duration::from_secs(20);
/// A limit that is to be met in a test.
pub const SHORT: Duration = Duration::from_millis(500);

pub struct Server {
    pub service: Service,
    pub address: SocketAddr,
    shutdown: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

/// No limit of time that a test could meet by accident.
pub fn patient() -> HttpLimits {
    HttpLimits {
        request_timeout: FOR_EVER * 3,
        header_timeout: FOR_EVER * 3,
        first_byte_timeout: FOR_EVER * 3,
        idle_timeout: FOR_EVER * 3,
        drain: FOR_EVER * 3,
        ..HttpLimits::default()
    }
}

impl Server {
    pub async fn start(limits: HttpLimits) -> Self {
        Self::encrypted(limits, |_| None).await
    }

    /// With the TLS that `tls` makes of the service's metrics.
    pub async fn encrypted(limits: HttpLimits, tls: impl FnOnce(&Metrics) -> Option<ServerTls>) -> Self {
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

    /// Sends bytes on a connection of their own and returns all that comes back until it is closed.
    pub async fn exchange(&self, bytes: &[u8]) -> String {
        let mut client = self.connect().await;
        client.send(bytes).await;
        client.rest().await
    }

    /// A healthy decision, on a connection of its own.
    pub async fn assert_answers(&self) {
        let answer = self.exchange(decision("connection: close\r\n").as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains(r#"{"verdict":"unique","#), "{answer}");
    }

    pub fn timeouts(&self, phase: &str) -> u64 {
        self.service.api.metrics.http_timeouts.with_label_values(&[phase]).get()
    }

    pub fn ask_to_stop(self) -> (JoinHandle<()>, Service) {
        self.shutdown.send(()).unwrap();
        (self.serving, self.service)
    }
}

/// A healthy request with further header lines.
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
    /// Sends as much as the server takes: it may have closed already, which the answer tells.
    pub async fn send(&mut self, bytes: &[u8]) {
        timeout(FOR_EVER, self.write(bytes)).await.expect("the server reads or closes");
    }

    /// Whether the connection took it all.
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

    /// Nothing when the connection is closed, properly or by a reset.
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

    /// All that comes until the connection is closed.
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
        timeout(FOR_EVER, reading).await.expect("the server closes the connection")
    }

    /// Bytes that come within `wait`; none when it is over, an end when the connection is closed.
    pub async fn within(&mut self, wait: Duration) -> Came {
        match timeout(wait, self.read()).await {
            Err(_) => Came::Nothing,
            Ok(bytes) if bytes.is_empty() => Came::End,
            Ok(bytes) => Came::Bytes(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    /// One answer on a connection that stays open.
    pub async fn answer(&mut self) -> String {
        let mut text = String::new();
        loop {
            match self.within(FOR_EVER).await {
                Came::Bytes(more) => text += &more,
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
pub enum Came {
    Nothing,
    Bytes(String),
    End,
}

/// Waits until something is true that no message tells.
pub async fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let waiting = async {
        while !check() {
            tokio::task::yield_now().await;
        }
    };
    timeout(FOR_EVER, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}
