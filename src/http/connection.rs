//! One connection, from the TLS handshake to its end.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep_until, timeout};
use tokio_rustls::server::TlsStream;

use super::observe::{OTHER_ROUTE, ObservedRouter};
use super::phase::{ConnectionPhase, PhaseTimer, TimedSocket};
use super::server::HttpLimits;
use super::tls::ServerTls;
use crate::metrics::Metrics;

/// hyper's lower limit.
const MIN_BUFFER_BYTES: usize = 8192;

/// What all connections of a listener share.
#[derive(Debug, Clone)]
pub(super) struct ConnectionContext {
    pub(super) router: ObservedRouter,
    pub(super) metrics: Metrics,
    pub(super) limits: Arc<HttpLimits>,
    pub(super) tls: Option<ServerTls>,
    /// True once the server is shutting down.
    pub(super) stopping: watch::Receiver<bool>,
}

impl ConnectionContext {
    /// Serves requests until the client disconnects, a deadline passes, or the server shuts down.
    pub(super) async fn serve(mut self, socket: TcpStream) {
        // Responses are small and the client waits for them. A broken socket fails at the first read.
        let _ = socket.set_nodelay(true);
        match self.tls.take() {
            None => self.serve_on(socket).await,
            Some(tls) => {
                if let Some(socket) = self.shake_hands(&tls, socket).await {
                    self.serve_on(socket).await;
                }
            }
        }
    }

    /// `None` when the handshake fails or times out, or when the server shuts down before it completes.
    async fn shake_hands(&mut self, tls: &ServerTls, socket: TcpStream) -> Option<TlsStream<TcpStream>> {
        let handshake = timeout(self.limits.handshake_timeout, tls.acceptor().accept(socket));
        let result = tokio::select! {
            biased;
            result = handshake => result,
            _ = self.stopping.wait_for(|stopping| *stopping) => return None,
        };
        match result {
            Ok(Ok(socket)) => return Some(socket),
            Ok(Err(error)) => {
                self.metrics.http_handshake_failures.inc();
                tracing::debug!(%error, "TLS handshake failed");
            }
            Err(_) => self.metrics.http_timeouts.with_label_values(&["handshake"]).inc(),
        }
        None
    }

    async fn serve_on<S: AsyncRead + AsyncWrite + Unpin>(self, socket: S) {
        let timer = Arc::new(PhaseTimer::new(self.limits.clone()));
        let io = TokioIo::new(TimedSocket { socket, timer: timer.clone(), discarded: 0 });
        let (router, request_timer) = (self.router, timer.clone());
        let service = service_fn(move |request| {
            request_timer.on_head_received();
            let response = router.clone().respond(request);
            let timer = request_timer.clone();
            async move {
                let response = response.await;
                timer.on_response();
                Ok::<_, Infallible>(response)
            }
        });
        let mut connection = pin!(http1_builder(&self.limits).serve_connection(io, service));
        let mut sleep = pin!(sleep_until(tokio::time::Instant::now() + self.limits.first_byte_timeout));
        let mut stopping = self.stopping;
        let mut is_shutting_down = false;
        loop {
            tokio::select! {
                biased;
                result = connection.as_mut() => return count_protocol_error(result, &self.metrics),
                () = poll_fn(|cx| timer.poll_overdue(&mut sleep, cx)) => {
                    return count_timeout(timer.phase(), &self.metrics);
                }
                _ = stopping.wait_for(|stopping| *stopping), if !is_shutting_down => {
                    connection.as_mut().graceful_shutdown();
                    is_shutting_down = true;
                }
            }
        }
    }
}

/// HTTP/1 only, without upgrades.
fn http1_builder(limits: &HttpLimits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .header_read_timeout(None)
        .max_headers(limits.max_headers)
        .max_header_size(limits.max_header_bytes)
        .max_buf_size(limits.max_header_bytes.saturating_mul(2).max(MIN_BUFFER_BYTES));
    builder
}

/// Counts heads that hyper refused: they never reach the router, which counts all other requests.
fn count_protocol_error(result: hyper::Result<()>, metrics: &Metrics) {
    let Err(error) = result else { return };
    let status = match () {
        () if error.is_parse_too_large() => "431",
        () if error.is_parse() => "400",
        () => return tracing::debug!(%error, "connection failed"),
    };
    metrics.http_requests.with_label_values(&[OTHER_ROUTE, status]).inc();
}

fn count_timeout(phase: ConnectionPhase, metrics: &Metrics) {
    metrics.http_timeouts.with_label_values(&[phase.name()]).inc();
    tracing::debug!(phase = phase.name(), "connection timed out and was closed");
}
