//! One connection, from its first byte to its end.

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

use super::observe::{OTHER, Observed};
use super::pace::{Pace, Paced, Phase};
use super::server::HttpLimits;
use super::tls::Tls;
use crate::metrics::Metrics;

/// hyper takes no smaller buffer.
const LEAST_BUFFER: usize = 8192;

/// What all connections of a listener share.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    pub(super) routes: Observed,
    pub(super) metrics: Metrics,
    pub(super) limits: Arc<HttpLimits>,
    pub(super) tls: Option<Tls>,
    /// True once no further requests are wanted.
    pub(super) stopping: watch::Receiver<bool>,
}

impl Shared {
    /// Serves requests until the client leaves, a deadline passes, or the service stops.
    pub(super) async fn serve(mut self, socket: TcpStream) {
        // Answers are small and awaited. A socket that is already gone shows it at the first read.
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

    /// `None` when the client did not manage it, in time, before a stop.
    async fn shake_hands(&mut self, tls: &Tls, socket: TcpStream) -> Option<TlsStream<TcpStream>> {
        let handshake = timeout(self.limits.handshake_timeout, tls.acceptor().accept(socket));
        let shaken = tokio::select! {
            biased;
            shaken = handshake => shaken,
            _ = self.stopping.wait_for(|stopping| *stopping) => return None,
        };
        match shaken {
            Ok(Ok(socket)) => return Some(socket),
            Ok(Err(error)) => {
                self.metrics.http_handshake_failures.inc();
                tracing::debug!(%error, "no TLS connection came about");
            }
            Err(_) => self.metrics.http_timeouts.with_label_values(&["handshake"]).inc(),
        }
        None
    }

    async fn serve_on<S: AsyncRead + AsyncWrite + Unpin>(self, socket: S) {
        let pace = Arc::new(Pace::new(self.limits.clone()));
        let io = TokioIo::new(Paced { socket, pace: pace.clone(), discarded: 0 });
        let (routes, paced) = (self.routes, pace.clone());
        let service = service_fn(move |request| {
            paced.head_is_read();
            let answer = routes.clone().answer(request);
            let paced = paced.clone();
            async move {
                let answer = answer.await;
                paced.is_answered();
                Ok::<_, Infallible>(answer)
            }
        });
        let mut connection = pin!(protocol(&self.limits).serve_connection(io, service));
        let mut sleep = pin!(sleep_until(tokio::time::Instant::now() + self.limits.first_byte_timeout));
        let mut stopping = self.stopping;
        let mut told = false;
        loop {
            tokio::select! {
                biased;
                ended = connection.as_mut() => return tell(ended, &self.metrics),
                () = poll_fn(|cx| pace.poll_overdue(&mut sleep, cx)) => return cut(pace.phase(), &self.metrics),
                _ = stopping.wait_for(|stopping| *stopping), if !told => {
                    connection.as_mut().graceful_shutdown();
                    told = true;
                }
            }
        }
    }
}

/// HTTP/1 only: nothing to upgrade to, no streams to reset.
fn protocol(limits: &HttpLimits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .header_read_timeout(None)
        .max_headers(limits.max_headers)
        .max_header_size(limits.max_header_bytes)
        .max_buf_size(limits.max_header_bytes.saturating_mul(2).max(LEAST_BUFFER));
    builder
}

/// Counts what ended before it was a request: the router never saw it.
fn tell(ended: hyper::Result<()>, metrics: &Metrics) {
    let Err(error) = ended else { return };
    let status = match () {
        () if error.is_parse_too_large() => "431",
        () if error.is_parse() => "400",
        () => return tracing::debug!(%error, "connection broken"),
    };
    metrics.http_requests.with_label_values(&[OTHER, status]).inc();
}

fn cut(phase: Phase, metrics: &Metrics) {
    metrics.http_timeouts.with_label_values(&[phase.name()]).inc();
    tracing::debug!(phase = phase.name(), "connection cut");
}
