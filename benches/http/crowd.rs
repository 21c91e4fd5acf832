//! Connections that ask for nothing: idle ones, heads that drip, bodies that drip. Those that the server cuts come again.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const DRIP: Duration = Duration::from_millis(500);

/// Kept up by a thread until dispersed.
pub struct Crowd {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

#[derive(Clone, Copy)]
enum Manner {
    Silent,
    SlowHead,
    SlowBody,
}

const MANNERS: [Manner; 3] = [Manner::Silent, Manner::SlowHead, Manner::SlowBody];

impl Manner {
    fn beginning(self) -> &'static [u8] {
        match self {
            Manner::Silent => b"",
            Manner::SlowHead => b"POST /v1/streams/clicks/decide HTTP/1.1\r\nhost: bench\r\nx-slow: ",
            Manner::SlowBody => {
                b"POST /v1/streams/clicks/decide HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n\
                  content-length: 5000\r\n\r\n{"
            }
        }
    }

    fn drip(self) -> &'static [u8] {
        match self {
            Manner::Silent => b"",
            Manner::SlowHead => b"a",
            Manner::SlowBody => b" ",
        }
    }
}

impl Crowd {
    /// Returns once all are connected.
    pub fn gather(address: SocketAddr, count: usize) -> Self {
        let join = |index: usize| connect(address, MANNERS[index % MANNERS.len()]);
        let mut all: Vec<Option<TcpStream>> = (0..count).map(join).collect();
        let connected = all.iter().flatten().count();
        assert!(connected == count, "only {connected} of {count} connected; are files limited (ulimit -n)?");
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let thread = std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(DRIP);
                for (index, place) in all.iter_mut().enumerate() {
                    let manner = MANNERS[index % MANNERS.len()];
                    let is_open = place.as_mut().is_some_and(|socket| goes_on(socket, manner));
                    if !is_open {
                        *place = connect(address, manner);
                    }
                }
            }
        });
        Self { is_over, thread }
    }

    pub fn disperse(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("the crowd does not panic");
    }
}

fn connect(address: SocketAddr, manner: Manner) -> Option<TcpStream> {
    let mut socket = TcpStream::connect(address).ok()?;
    socket.set_nonblocking(true).ok()?;
    socket.write_all(manner.beginning()).ok()?;
    Some(socket)
}

/// Drips, and tells whether the server still bears it.
fn goes_on(socket: &mut TcpStream, manner: Manner) -> bool {
    let mut space = [0; 1024];
    match socket.read(&mut space) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => socket.write_all(manner.drip()).is_ok(),
        _ => false,
    }
}
