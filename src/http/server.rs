//! The accept loop: `axum::serve` has no timers, so that a client who sends nothing would be waited for without end, and
//! no TLS.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;

use super::connection::Shared;
use super::routes::Routes;
use super::seats::Seats;
use super::tls::Tls;

/// What a client may cost.
#[derive(Debug, Clone)]
pub struct HttpLimits {
    /// The longest from the end of a request's head to its answer, the body included.
    pub request_timeout: Duration,
    /// The longest a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// The longest a head may take from its first byte on.
    pub header_timeout: Duration,
    /// The longest a new connection may say nothing.
    pub first_byte_timeout: Duration,
    /// The longest a connection may wait for its next request, and an answer for its reader.
    pub idle_timeout: Duration,
    pub max_body_bytes: usize,
    pub max_headers: usize,
    /// Of the whole head.
    pub max_header_bytes: usize,
    pub max_connections: usize,
    /// From one address; no limit when absent, as behind a proxy, where all come from one.
    pub max_connections_per_address: Option<usize>,
    /// How long requests in flight may go on after a stop.
    pub drain: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(10),
            handshake_timeout: Duration::from_secs(5),
            header_timeout: Duration::from_secs(5),
            first_byte_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(30),
            max_body_bytes: 8 << 20,
            max_headers: 64,
            max_header_bytes: 16 << 10,
            max_connections: 4096,
            max_connections_per_address: None,
            drain: Duration::from_secs(10),
        }
    }
}

/// How long to wait when no connection can be accepted, for instance because no file descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where clients come in.
#[derive(Debug)]
pub struct Entrance {
    pub listener: TcpListener,
    /// Without it connections are in the clear.
    pub tls: Option<Tls>,
}

impl From<TcpListener> for Entrance {
    fn from(listener: TcpListener) -> Self {
        Self { listener, tls: None }
    }
}

/// Serves `routes` until `shutdown` is ready, then lets requests in flight finish within `limits.drain`.
pub async fn serve(entrance: impl Into<Entrance>, routes: Routes, shutdown: impl Future<Output = ()>) {
    let Entrance { listener, tls } = entrance.into();
    let (routes, api) = routes.into_parts();
    let limits = Arc::new(api.limits.clone());
    let metrics = api.metrics.clone();
    let seats =
        Seats::new(limits.max_connections, limits.max_connections_per_address, metrics.http_connections.clone());
    let (stop, stopping) = watch::channel(false);
    let shared = Shared { routes, metrics, limits: limits.clone(), tls, stopping };
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            Some(ended) = connections.join_next() => note(ended),
            accepted = listener.accept() => match accepted {
                Ok((socket, from)) => match seats.take(from.ip()) {
                    Some(seat) => {
                        let serving = shared.clone().serve(socket);
                        connections.spawn(async move {
                            serving.await;
                            drop(seat);
                        });
                    }
                    None => refuse(socket, &shared),
                },
                Err(error) => pause_after(&error).await,
            },
        }
    }
    drop(listener);
    // The receiver is held by `shared`.
    let _ = stop.send(true);
    let drained = timeout(limits.drain, async {
        while let Some(ended) = connections.join_next().await {
            note(ended);
        }
    });
    if drained.await.is_err() {
        tracing::warn!(connections = seats.taken(), "connections cut: they did not end in time");
    }
}

fn refuse(socket: TcpStream, shared: &Shared) {
    shared.metrics.http_refused.inc();
    drop(socket);
}

/// A client that left again is no reason to wait; anything else is likely to come back at once.
async fn pause_after(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    if !matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted) {
        tracing::warn!(%error, "no connection could be accepted");
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

fn note(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!("a request panicked; its connection is closed");
    }
}
