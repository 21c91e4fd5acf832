//! How long each phase of a connection may last. hyper has one timer, for heads, and starts it with the wait for them; here
//! waiting, dripping and answering each have their own deadline.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::server::HttpLimits;

/// What a request's own deadline is given on top, to be answered as a problem before the connection is cut.
const GRACE: Duration = Duration::from_secs(1);
/// How long a closed connection is still read, so that the answer is not lost to a reset.
const LINGER: Duration = Duration::from_secs(1);
/// How much of it is read and thrown away.
const LINGER_BYTES: usize = 1 << 20;

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    /// Accepted; no byte has come.
    Fresh,
    /// A head is arriving.
    Head,
    /// A request is being read, decided and answered.
    Request,
    /// The answer is on its way out; the next request may come.
    Answered,
    /// The answer that ends the connection is out.
    Closing,
}

impl Phase {
    const ALL: [Phase; 5] = [Phase::Fresh, Phase::Head, Phase::Request, Phase::Answered, Phase::Closing];

    pub(super) fn name(self) -> &'static str {
        match self {
            Phase::Fresh => "fresh",
            Phase::Head => "head",
            Phase::Request => "request",
            Phase::Answered => "answered",
            Phase::Closing => "closing",
        }
    }
}

/// The phase of one connection and when it must be over. Only the connection's own task touches it; atomics let the parts
/// of that task share it.
#[derive(Debug)]
pub(super) struct Pace {
    limits: Arc<HttpLimits>,
    accepted: Instant,
    phase: AtomicU8,
    /// Milliseconds after `accepted`.
    deadline_ms: AtomicU64,
}

impl Pace {
    pub(super) fn new(limits: Arc<HttpLimits>) -> Self {
        let first_byte = limits.first_byte_timeout;
        let pace = Self { limits, accepted: Instant::now(), phase: AtomicU8::new(0), deadline_ms: AtomicU64::new(0) };
        pace.enter(Phase::Fresh, first_byte);
        pace
    }

    pub(super) fn phase(&self) -> Phase {
        Phase::ALL[usize::from(self.phase.load(Relaxed))]
    }

    fn enter(&self, phase: Phase, lasting: Duration) {
        let deadline = self.accepted.elapsed().saturating_add(lasting);
        self.phase.store(phase as u8, Relaxed);
        self.deadline_ms.store(u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX), Relaxed);
    }

    fn bytes_came(&self) {
        if matches!(self.phase(), Phase::Fresh | Phase::Answered) {
            self.enter(Phase::Head, self.limits.header_timeout);
        }
    }

    pub(super) fn head_is_read(&self) {
        self.enter(Phase::Request, self.limits.request_timeout.saturating_add(GRACE));
    }

    pub(super) fn is_answered(&self) {
        self.enter(Phase::Answered, self.limits.idle_timeout);
    }

    fn deadline(&self) -> Instant {
        self.accepted
            .checked_add(Duration::from_millis(self.deadline_ms.load(Relaxed)))
            .unwrap_or_else(|| Instant::now() + Duration::from_secs(86_400))
    }

    /// Ready when the phase lasted too long. To be polled after the connection, which may have moved the deadline.
    pub(super) fn poll_overdue(&self, sleep: &mut Pin<&mut Sleep>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let deadline = self.deadline();
            // A later deadline is noticed when the timer rings; only an earlier one must move it now.
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

/// A socket that tells its pace when bytes come, and lingers when it is shut down.
#[derive(Debug)]
pub(super) struct Paced<S> {
    pub(super) socket: S,
    pub(super) pace: Arc<Pace>,
    pub(super) discarded: usize,
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(cx, buffer))?;
        if buffer.filled().len() > before {
            self.pace.bytes_came();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    /// Says that nothing more will be written, then reads on for a while: a socket that is closed with bytes unread resets
    /// the connection, and the client may lose the answer that tells it why.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.pace.phase() != Phase::Closing {
            ready!(Pin::new(&mut self.socket).poll_shutdown(cx))?;
            self.pace.enter(Phase::Closing, LINGER);
        }
        let mut space = [0; 4096];
        while self.discarded < LINGER_BYTES {
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
