//! Idle connections, slow heads and slow bodies. A connection that the server closes is opened again.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const SEND_INTERVAL: Duration = Duration::from_millis(500);

/// Kept open by a thread until it is stopped.
pub struct SlowClients {
    is_stopped: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

#[derive(Clone, Copy)]
enum ClientKind {
    Silent,
    SlowHead,
    SlowBody,
}

const CLIENT_KINDS: [ClientKind; 3] = [ClientKind::Silent, ClientKind::SlowHead, ClientKind::SlowBody];

impl ClientKind {
    fn first_bytes(self) -> &'static [u8] {
        match self {
            ClientKind::Silent => b"",
            ClientKind::SlowHead => b"POST /v1/streams/clicks/decide HTTP/1.1\r\nhost: bench\r\nx-slow: ",
            ClientKind::SlowBody => {
                b"POST /v1/streams/clicks/decide HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n\
                  content-length: 5000\r\n\r\n{"
            }
        }
    }

    fn next_bytes(self) -> &'static [u8] {
        match self {
            ClientKind::Silent => b"",
            ClientKind::SlowHead => b"a",
            ClientKind::SlowBody => b" ",
        }
    }
}

impl SlowClients {
    /// Returns once all are connected.
    pub fn connect(address: SocketAddr, count: usize) -> Self {
        let open = |index: usize| connect(address, CLIENT_KINDS[index % CLIENT_KINDS.len()]);
        let mut all: Vec<Option<TcpStream>> = (0..count).map(open).collect();
        let connected = all.iter().flatten().count();
        assert!(connected == count, "only {connected} of {count} connected; check the limit of open files (ulimit -n)");
        let is_stopped = Arc::new(AtomicBool::new(false));
        let stopped = is_stopped.clone();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                std::thread::sleep(SEND_INTERVAL);
                for (index, client) in all.iter_mut().enumerate() {
                    let kind = CLIENT_KINDS[index % CLIENT_KINDS.len()];
                    let is_open = client.as_mut().is_some_and(|socket| continue_sending(socket, kind));
                    if !is_open {
                        *client = connect(address, kind);
                    }
                }
            }
        });
        Self { is_stopped, thread }
    }

    pub fn stop(self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.thread.join().expect("the thread does not panic");
    }
}

fn connect(address: SocketAddr, kind: ClientKind) -> Option<TcpStream> {
    let mut socket = TcpStream::connect(address).ok()?;
    socket.set_nonblocking(true).ok()?;
    socket.write_all(kind.first_bytes()).ok()?;
    Some(socket)
}

/// Sends the next bytes; false if the server closed the connection.
fn continue_sending(socket: &mut TcpStream, kind: ClientKind) -> bool {
    let mut space = [0; 1024];
    match socket.read(&mut space) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => socket.write_all(kind.next_bytes()).is_ok(),
        _ => false,
    }
}
