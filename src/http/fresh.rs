//! Values made of files, and made again when the files change: tokens and certificates are exchanged without a restart.
//!
//! What was made last holds until something better can be made: a file that is half written, unreadable or gone changes
//! nothing but a count and a log line. Contents are compared, not dates: a mounted secret is exchanged by a link.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use prometheus::IntCounter;
use tokio::sync::watch;

/// How often the files are looked at.
const EVERY: Duration = Duration::from_secs(1);
/// What none of the files may exceed.
const MOST_BYTES: u64 = 1 << 20;

/// The newest value; cheap to copy.
#[derive(Debug)]
pub(super) struct Fresh<T>(watch::Receiver<Arc<T>>);

impl<T> Clone for Fresh<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Why there is no value.
#[derive(Debug, thiserror::Error)]
pub enum FreshError<E: fmt::Display> {
    #[error("{}: {error}", path.display())]
    Unread { path: PathBuf, error: io::Error },
    #[error("{}: has more than {MOST_BYTES} bytes", .0.display())]
    Large(PathBuf),
    #[error("{files}: {error}")]
    Content { files: String, error: E },
}

/// Where a value comes from.
#[derive(Debug)]
struct Source<T, E> {
    files: Vec<PathBuf>,
    make: fn(&[Vec<u8>]) -> Result<T, E>,
}

type Made<T> = (T, blake3::Hash);

impl<T: Send + Sync + 'static> Fresh<T> {
    /// Makes the value now, and from now on whenever the files change; `failures` counts when that did not succeed. The
    /// contents are handed over in the order of the files.
    pub(super) fn follow<E>(
        files: Vec<PathBuf>,
        make: fn(&[Vec<u8>]) -> Result<T, E>,
        failures: IntCounter,
    ) -> Result<Self, FreshError<E>>
    where
        E: fmt::Display + Send + 'static,
    {
        let source = Arc::new(Source { files, make });
        let (value, print) = source.make(None)?.expect("there is nothing yet that it could be equal to");
        let (newest, values) = watch::channel(Arc::new(value));
        tokio::spawn(keep(source, newest, print, failures));
        Ok(Self(values))
    }

    pub(super) fn get(&self) -> Arc<T> {
        self.0.borrow().clone()
    }
}

impl<T, E: fmt::Display> Source<T, E> {
    /// The value, unless the files are what they were.
    fn make(&self, known: Option<blake3::Hash>) -> Result<Option<Made<T>>, FreshError<E>> {
        let contents = self.files.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let mut hasher = blake3::Hasher::new();
        for content in &contents {
            hasher.update(&(content.len() as u64).to_le_bytes()).update(content);
        }
        let print = hasher.finalize();
        if known == Some(print) {
            return Ok(None);
        }
        let named: Vec<String> = self.files.iter().map(|path| path.display().to_string()).collect();
        let value = (self.make)(&contents).map_err(|error| FreshError::Content { files: named.join(", "), error })?;
        Ok(Some((value, print)))
    }
}

fn read<E: fmt::Display>(path: &PathBuf) -> Result<Vec<u8>, FreshError<E>> {
    let unread = |error| FreshError::Unread { path: path.clone(), error };
    let mut content = Vec::new();
    File::open(path).map_err(unread)?.take(MOST_BYTES + 1).read_to_end(&mut content).map_err(unread)?;
    if content.len() as u64 > MOST_BYTES { Err(FreshError::Large(path.clone())) } else { Ok(content) }
}

/// Until nobody wants the value any more.
async fn keep<T, E>(
    source: Arc<Source<T, E>>,
    newest: watch::Sender<Arc<T>>,
    mut print: blake3::Hash,
    failures: IntCounter,
) where
    T: Send + Sync + 'static,
    E: fmt::Display + Send + 'static,
{
    let mut told = String::new();
    loop {
        tokio::select! {
            () = newest.closed() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        let source = source.clone();
        let made = tokio::task::spawn_blocking(move || source.make(Some(print)).map_err(|error| error.to_string()));
        match made.await {
            Ok(Ok(None)) => told.clear(),
            Ok(Ok(Some((value, made_of)))) => {
                print = made_of;
                newest.send_replace(Arc::new(value));
                told.clear();
                tracing::info!("a changed file is in force");
            }
            // The same mistake is told once.
            Ok(Err(why)) if why == told => {}
            Ok(Err(why)) => {
                failures.inc();
                tracing::error!(%why, "a changed file is not used; what was there before stays in force");
                told = why;
            }
            // Cancelled: the process is ending.
            Err(_) => return,
        }
    }
}
