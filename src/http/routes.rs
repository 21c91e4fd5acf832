//! What is found where.

use std::sync::Arc;

use axum::Router;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};

use super::problem::{Kind, Problem};
use super::server::HttpLimits;
use super::{aggregates, decide, observe, probes, status};
use crate::metrics::Metrics;
use crate::workers::{Readiness, Stream, Streams};

/// What requests are answered from.
#[derive(Debug)]
pub struct Api {
    pub streams: Streams,
    pub metrics: Metrics,
    pub limits: HttpLimits,
}

/// A set of routes to be served on one listener.
#[derive(Debug)]
pub struct Routes {
    router: Router<Arc<Api>>,
    api: Arc<Api>,
}

impl Routes {
    /// Questions and events.
    pub fn service(api: Arc<Api>) -> Self {
        Self { router: service_routes(), api }
    }

    /// Probes and metrics.
    pub fn admin(api: Arc<Api>) -> Self {
        Self { router: admin_routes(), api }
    }

    /// Everything on one listener.
    pub fn all(api: Arc<Api>) -> Self {
        Self { router: service_routes().merge(admin_routes()), api }
    }

    /// The routes as axum's own type, for tests that need no socket.
    pub fn into_router(self) -> Router {
        self.into_parts().0
    }

    pub(super) fn into_parts(self) -> (Router, Arc<Api>) {
        let Self { router, api } = self;
        let router = router
            .fallback(async || Problem::new(Kind::UnknownPath, "the paths begin with /v1/streams"))
            .method_not_allowed_fallback(async || {
                Problem::new(Kind::MethodNotAllowed, "the `allow` header lists the methods that the path takes")
            })
            .layer(from_fn_with_state(api.clone(), observe::observe))
            .with_state(api.clone());
        (router, api)
    }
}

fn service_routes() -> Router<Arc<Api>> {
    Router::new()
        .route("/v1/streams", get(status::list))
        .route("/v1/streams/{stream}", get(status::show))
        .route("/v1/streams/{stream}/decide", post(decide::decide))
        .route("/v1/streams/{stream}/aggregates/{aggregate}/{statistic}", get(aggregates::answer))
}

fn admin_routes() -> Router<Arc<Api>> {
    Router::new()
        .route("/livez", get(probes::live))
        .route("/readyz", get(probes::ready))
        .route("/healthz", get(probes::ready))
        .route("/metrics", get(probes::metrics))
}

impl Api {
    /// The stream that a path names.
    pub(super) fn stream(&self, name: Result<Path<String>, PathRejection>) -> Result<(String, &Stream), Problem> {
        let Path(name) = name.map_err(|_| {
            Problem::new(Kind::InvalidPath, "a stream's name in a path is UTF-8 text, percent-encoded where needed")
        })?;
        match self.streams.get(&name) {
            Some(stream) => Ok((name, stream)),
            None => {
                let known: Vec<&str> = self.streams.iter().map(|(known, _)| known).collect();
                Err(Problem::new(Kind::UnknownStream, format!("the streams are: {}", known.join(", "))))
            }
        }
    }

    /// Questions can be answered.
    pub(super) fn require_ready(&self) -> Result<(), Problem> {
        told(self.streams.readiness())
    }

    /// New work is welcome.
    pub(super) fn require_fit(&self) -> Result<(), Problem> {
        told(self.streams.fitness())
    }
}

fn told(readiness: Readiness) -> Result<(), Problem> {
    match readiness {
        Readiness::Ready => Ok(()),
        Readiness::Stopping => Err(Problem::new(Kind::Stopping, "the service is stopping; ask another instance")),
        Readiness::Restoring => Err(Problem::new(Kind::NotReady, "the memory is being restored; try again soon")),
        Readiness::Failed(why) => Err(Problem::new(Kind::RestoreFailed, why)),
    }
}
