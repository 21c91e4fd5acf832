//! Values built from files and rebuilt when the files change, so that tokens and certificates are replaced without a
//! restart.
//!
//! A reload that fails keeps the value in use: an unreadable, half-written or missing file is logged and counted. Changes
//! are detected by content, not by modification time, because mounted secrets are replaced through symbolic links.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use prometheus::IntCounter;
use tokio::sync::watch;

/// How often the files are read.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Size limit of each file.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A handle to the newest value; cheap to clone.
#[derive(Debug)]
pub(super) struct Reloading<T>(watch::Receiver<Arc<T>>);

impl<T> Clone for Reloading<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Why no value could be built from the files.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError<E: fmt::Display> {
    #[error("{}: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{}: has more than {MAX_FILE_BYTES} bytes", .0.display())]
    TooLarge(PathBuf),
    #[error("{files}: {error}")]
    Content { files: String, error: E },
}

/// The files of a value and the function that builds it from their contents.
#[derive(Debug)]
struct FileSource<T, E> {
    files: Vec<PathBuf>,
    build: fn(&[Vec<u8>]) -> Result<T, E>,
}

/// A value and the digest of the file contents it was built from.
type ValueWithDigest<T> = (T, blake3::Hash);

impl<T: Send + Sync + 'static> Reloading<T> {
    /// Builds the value and starts a task that rebuilds it whenever the files change; `failures` counts reloads that failed.
    /// `build` receives the contents in the order of `files`. Must be called within a Tokio runtime.
    pub(super) fn start<E>(
        files: Vec<PathBuf>,
        build: fn(&[Vec<u8>]) -> Result<T, E>,
        failures: IntCounter,
    ) -> Result<Self, ReloadError<E>>
    where
        E: fmt::Display + Send + 'static,
    {
        let source = Arc::new(FileSource { files, build });
        let (value, digest) = source.load(None)?.expect("without a known digest the value is always built");
        let (sender, receiver) = watch::channel(Arc::new(value));
        tokio::spawn(reload(source, sender, digest, failures));
        Ok(Self(receiver))
    }

    pub(super) fn get(&self) -> Arc<T> {
        self.0.borrow().clone()
    }
}

impl<T, E: fmt::Display> FileSource<T, E> {
    /// The value, or `None` when the contents still have the digest `known`.
    fn load(&self, known: Option<blake3::Hash>) -> Result<Option<ValueWithDigest<T>>, ReloadError<E>> {
        let contents = self.files.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let mut hasher = blake3::Hasher::new();
        for content in &contents {
            hasher.update(&(content.len() as u64).to_le_bytes()).update(content);
        }
        let digest = hasher.finalize();
        if known == Some(digest) {
            return Ok(None);
        }
        let names: Vec<String> = self.files.iter().map(|path| path.display().to_string()).collect();
        let value = (self.build)(&contents).map_err(|error| ReloadError::Content { files: names.join(", "), error })?;
        Ok(Some((value, digest)))
    }
}

fn read<E: fmt::Display>(path: &PathBuf) -> Result<Vec<u8>, ReloadError<E>> {
    let unreadable = |error| ReloadError::Unreadable { path: path.clone(), error };
    let mut content = Vec::new();
    File::open(path).map_err(unreadable)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut content).map_err(unreadable)?;
    if content.len() as u64 > MAX_FILE_BYTES { Err(ReloadError::TooLarge(path.clone())) } else { Ok(content) }
}

/// Runs until the last handle is dropped.
async fn reload<T, E>(
    source: Arc<FileSource<T, E>>,
    sender: watch::Sender<Arc<T>>,
    mut digest: blake3::Hash,
    failures: IntCounter,
) where
    T: Send + Sync + 'static,
    E: fmt::Display + Send + 'static,
{
    let mut last_error = String::new();
    loop {
        tokio::select! {
            () = sender.closed() => return,
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
        let source = source.clone();
        let load = tokio::task::spawn_blocking(move || source.load(Some(digest)).map_err(|error| error.to_string()));
        match load.await {
            Ok(Ok(None)) => last_error.clear(),
            Ok(Ok(Some((value, new_digest)))) => {
                digest = new_digest;
                sender.send_replace(Arc::new(value));
                last_error.clear();
                tracing::info!("changed file reloaded");
            }
            // The same error is logged and counted once, not at every poll.
            Ok(Err(error)) if error == last_error => {}
            Ok(Err(error)) => {
                failures.inc();
                tracing::error!(%error, "reload failed, the previous content stays in use");
                last_error = error;
            }
            // The blocking task was cancelled because the runtime is shutting down.
            Err(_) => return,
        }
    }
}
