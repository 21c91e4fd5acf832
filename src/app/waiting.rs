//! What is answered while the brokers do not let this instance in: alive, not ready, and why. It is asked where the service
//! will be, and ends when the service takes over.

use std::sync::Arc;

use tokio::sync::watch;

use super::listeners::Listeners;
use crate::http::{self, Api, HttpLimits, Routes};
use crate::metrics::Metrics;
use crate::store::Store;
use crate::workers::{Expectation, Streams};

/// Ends when it is dropped.
pub(super) struct Waiting {
    expectation: Expectation,
    _end: watch::Sender<()>,
}

impl Waiting {
    pub(super) fn begin(
        listeners: &Listeners,
        store: Arc<Store>,
        metrics: &Metrics,
        limits: HttpLimits,
    ) -> anyhow::Result<Self> {
        let (streams, expectation) = Streams::awaited(store);
        let api = Arc::new(Api::new(streams, metrics.clone(), limits));
        let (end, ended) = watch::channel(());
        let until_end = || {
            let mut ended = ended.clone();
            async move {
                // Nothing is ever sent: the sender goes.
                let _ = ended.changed().await;
            }
        };
        let routes = Routes::waiting(api.clone()).with_tokens(listeners.tokens.clone());
        tokio::spawn(http::serve(listeners.service()?, routes, until_end()));
        if let Some(admin) = listeners.admin()? {
            tokio::spawn(http::serve(admin, Routes::admin(api), until_end()));
        }
        Ok(Self { expectation, _end: end })
    }

    /// Tells whoever asks what is waited for; logs it when it is news.
    pub(super) fn note(&self, why: String) {
        if self.expectation.note(why.clone()) {
            tracing::warn!(why, "waiting for the brokers");
        }
    }
}
