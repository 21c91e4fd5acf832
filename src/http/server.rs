//! The accept loop of a listener. `axum::serve` has neither TLS nor timeouts, so that a silent client would hold its
//! connection for ever.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;

use super::connection::ConnectionContext;
use super::connection_limit::ConnectionLimit;
use super::routes::Routes;
use super::tls::ServerTls;

/// Limits on what a client may cost.
#[derive(Debug, Clone)]
pub struct HttpLimits {
    /// From the end of a request's head to its response, including the body.
    pub request_timeout: Duration,
    pub handshake_timeout: Duration,
    /// From the first byte of a request's head to its last.
    pub header_timeout: Duration,
    /// From the accept of a connection to its first byte.
    pub first_byte_timeout: Duration,
    /// From one response to the next request, and for the client to read the response.
    pub idle_timeout: Duration,
    pub max_body_bytes: usize,
    pub max_headers: usize,
    /// Of the whole head.
    pub max_header_bytes: usize,
    pub max_connections: usize,
    /// `None`: unlimited, as needed behind a proxy, where all connections come from one address.
    pub max_connections_per_address: Option<usize>,
    /// How long requests in flight may continue after shutdown began.
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

/// Pause after a failed accept, for instance when no file descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A bound socket, with TLS or in plain text.
#[derive(Debug)]
pub struct Listener {
    pub socket: TcpListener,
    pub tls: Option<ServerTls>,
}

impl From<TcpListener> for Listener {
    /// Plain text.
    fn from(socket: TcpListener) -> Self {
        Self { socket, tls: None }
    }
}

/// Serves `routes` until `shutdown` completes, then waits up to `limits.drain` for the requests in flight.
pub async fn serve(listener: impl Into<Listener>, routes: Routes, shutdown: impl Future<Output = ()>) {
    let Listener { socket: listener, tls } = listener.into();
    let (router, api) = routes.into_parts();
    let limits = Arc::new(api.limits.clone());
    let metrics = api.metrics.clone();
    let limit = ConnectionLimit::new(
        limits.max_connections,
        limits.max_connections_per_address,
        metrics.http_connections.clone(),
    );
    let (stop, stopping) = watch::channel(false);
    let context = ConnectionContext { router, metrics, limits: limits.clone(), tls, stopping };
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            Some(result) = connections.join_next() => log_panic(result),
            accepted = listener.accept() => match accepted {
                Ok((socket, from)) => match limit.acquire(from.ip()) {
                    Some(permit) => {
                        let serving = context.clone().serve(socket);
                        connections.spawn(async move {
                            serving.await;
                            drop(permit);
                        });
                    }
                    None => refuse(socket, &context),
                },
                Err(error) => pause_after(&error).await,
            },
        }
    }
    drop(listener);
    // Cannot fail: `context` holds a receiver.
    let _ = stop.send(true);
    let drained = timeout(limits.drain, async {
        while let Some(result) = connections.join_next().await {
            log_panic(result);
        }
    });
    if drained.await.is_err() {
        tracing::warn!(connections = limit.open(), "drain timeout reached, closing the remaining connections");
    }
}

fn refuse(socket: TcpStream, context: &ConnectionContext) {
    context.metrics.http_refused.inc();
    drop(socket);
}

/// An aborted connection needs no pause; any other error is likely to repeat at once.
async fn pause_after(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    if !matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted) {
        tracing::warn!(%error, "accept failed, retrying in {} ms", ACCEPT_PAUSE.as_millis());
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

fn log_panic(result: Result<(), JoinError>) {
    if let Err(error) = result
        && error.is_panic()
    {
        tracing::error!("request handler panicked, its connection was closed");
    }
}
