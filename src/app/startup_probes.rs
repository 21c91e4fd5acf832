//! Answers probes while the brokers are not reachable yet: alive, not ready, and why. It uses the listeners of the service
//! and ends when the service takes over.

use std::sync::Arc;

use tokio::sync::watch;

use super::listeners::Listeners;
use crate::http::{self, Api, HttpLimits, Routes};
use crate::metrics::Metrics;
use crate::store::Store;
use crate::workers::{StartupProgress, Streams};

/// The servers that answer probes during start-up. They end when this is dropped.
pub(super) struct StartupProbes {
    progress: StartupProgress,
    _end: watch::Sender<()>,
}

impl StartupProbes {
    pub(super) fn serve(
        listeners: &Listeners,
        store: Arc<Store>,
        metrics: &Metrics,
        limits: HttpLimits,
    ) -> anyhow::Result<Self> {
        let (streams, progress) = Streams::starting(store);
        let api = Arc::new(Api::new(streams, metrics.clone(), limits));
        let (end, ended) = watch::channel(());
        let until_end = || {
            let mut ended = ended.clone();
            async move {
                // Nothing is ever sent: this resolves when the sender is dropped.
                let _ = ended.changed().await;
            }
        };
        let routes = Routes::waiting(api.clone()).with_tokens(listeners.tokens.clone());
        tokio::spawn(http::serve(listeners.service()?, routes, until_end()));
        if let Some(admin) = listeners.admin()? {
            tokio::spawn(http::serve(admin, Routes::admin(api), until_end()));
        }
        Ok(Self { progress, _end: end })
    }

    /// Sets the reason why the service is not ready, and logs it if it changed.
    pub(super) fn set_reason(&self, reason: String) {
        if self.progress.waiting_for(reason.clone()) {
            tracing::warn!(reason, "the brokers are not available, retrying");
        }
    }
}
