//! A deadline for each phase of a connection.
//!
//! hyper has a single timer, for request heads, which starts while the connection is still idle. Here waiting for the first
//! byte, receiving a head, processing a request, staying idle and closing each have a deadline of their own.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::server::HttpLimits;

/// Added to the request timeout, so that the request can be answered with a problem before the connection is closed.
const REQUEST_GRACE: Duration = Duration::from_secs(1);
/// How long input is discarded after the last response, so that a reset does not destroy the response in transit.
const LINGER: Duration = Duration::from_secs(1);
/// How much input is discarded.
const MAX_LINGER_BYTES: usize = 1 << 20;

/// Phase of a connection. The names are values of a metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum ConnectionPhase {
    /// Accepted; no byte was received.
    Fresh,
    /// A request head is being received.
    Head,
    /// A request is being read and processed.
    Request,
    /// The response is being sent; the next request may follow.
    Answered,
    /// The last response was sent and input is discarded.
    Closing,
}

impl ConnectionPhase {
    const ALL: [Self; 5] = [Self::Fresh, Self::Head, Self::Request, Self::Answered, Self::Closing];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Head => "head",
            Self::Request => "request",
            Self::Answered => "answered",
            Self::Closing => "closing",
        }
    }
}

/// The current phase of a connection and its deadline. Only the task of the connection uses it; atomics let the socket, the
/// service and the timer of that task share it.
#[derive(Debug)]
pub(super) struct PhaseTimer {
    limits: Arc<HttpLimits>,
    accepted: Instant,
    phase: AtomicU8,
    /// In milliseconds after `accepted`.
    deadline_ms: AtomicU64,
}

impl PhaseTimer {
    pub(super) fn new(limits: Arc<HttpLimits>) -> Self {
        let first_byte = limits.first_byte_timeout;
        let timer = Self { limits, accepted: Instant::now(), phase: AtomicU8::new(0), deadline_ms: AtomicU64::new(0) };
        timer.enter(ConnectionPhase::Fresh, first_byte);
        timer
    }

    pub(super) fn phase(&self) -> ConnectionPhase {
        ConnectionPhase::ALL[usize::from(self.phase.load(Relaxed))]
    }

    fn enter(&self, phase: ConnectionPhase, timeout: Duration) {
        let deadline = self.accepted.elapsed().saturating_add(timeout);
        self.phase.store(phase as u8, Relaxed);
        self.deadline_ms.store(u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX), Relaxed);
    }

    fn on_bytes_received(&self) {
        if matches!(self.phase(), ConnectionPhase::Fresh | ConnectionPhase::Answered) {
            self.enter(ConnectionPhase::Head, self.limits.header_timeout);
        }
    }

    pub(super) fn on_head_received(&self) {
        self.enter(ConnectionPhase::Request, self.limits.request_timeout.saturating_add(REQUEST_GRACE));
    }

    pub(super) fn on_response(&self) {
        self.enter(ConnectionPhase::Answered, self.limits.idle_timeout);
    }

    fn deadline(&self) -> Instant {
        self.accepted
            .checked_add(Duration::from_millis(self.deadline_ms.load(Relaxed)))
            .unwrap_or_else(|| Instant::now() + Duration::from_secs(86_400))
    }

    /// Ready when the phase is past its deadline. Must be polled after the connection, which may have moved the deadline.
    pub(super) fn poll_overdue(&self, sleep: &mut Pin<&mut Sleep>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let deadline = self.deadline();
            // A later deadline is noticed when the sleep ends; only an earlier one requires a reset now.
            if deadline < sleep.deadline() {
                sleep.as_mut().reset(deadline);
            }
            ready!(sleep.as_mut().poll(cx));
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(deadline);
        }
    }
}

/// A socket that reports received bytes to its [`PhaseTimer`] and lingers on shutdown.
#[derive(Debug)]
pub(super) struct TimedSocket<S> {
    pub(super) socket: S,
    pub(super) timer: Arc<PhaseTimer>,
    /// Bytes discarded during shutdown.
    pub(super) discarded: usize,
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedSocket<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(cx, buffer))?;
        if buffer.filled().len() > before {
            self.timer.on_bytes_received();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TimedSocket<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    /// Shuts down the sending side, then discards input for a while: closing a socket with unread bytes resets the
    /// connection, and the client may lose the response.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.timer.phase() != ConnectionPhase::Closing {
            ready!(Pin::new(&mut self.socket).poll_shutdown(cx))?;
            self.timer.enter(ConnectionPhase::Closing, LINGER);
        }
        let mut space = [0; 4096];
        while self.discarded < MAX_LINGER_BYTES {
            let mut buffer = ReadBuf::new(&mut space);
            match ready!(Pin::new(&mut self.socket).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => self.discarded += buffer.filled().len(),
                Ok(()) | Err(_) => break,
            }
        }
        Poll::Ready(Ok(()))
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, slices)
    }
}
