//! The service as a whole: what starts in which order, and stops in which order, with which deadlines.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::config::Config;

/// Runs the configured service until it is told to stop.
pub fn serve(_config: Config) -> anyhow::Result<()> {
    anyhow::bail!("the service is not built yet")
}

/// What the demonstration may be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DemoOptions {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Synthetic clicks a second.
    pub rate: u32,
    /// Where state is kept; a temporary directory when absent.
    pub data_dir: Option<PathBuf>,
}

/// Runs the embedded service with a synthetic click stream until it is told to stop.
pub fn demo(_options: DemoOptions) -> anyhow::Result<()> {
    anyhow::bail!("the demonstration is not built yet")
}
