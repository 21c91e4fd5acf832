//! What is found where.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodRouter, any, get, post};
use tower::service_fn;

use super::guard::{self, Guard};
use super::observe::Observed;
use super::problem::{Kind, Problem};
use super::server::HttpLimits;
use super::tokens::{Scope, Tokens};
use super::{aggregates, checkpoint, decide, frequency, openapi, probes, problems, status};
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
    /// Only with a token, where there are any.
    guarded: Router<Arc<Api>>,
    open: Router<Arc<Api>>,
    paths: BTreeSet<&'static str>,
    api: Arc<Api>,
    tokens: Option<Tokens>,
}

impl Routes {
    /// Questions and events.
    pub fn service(api: Arc<Api>) -> Self {
        let guarded = guarded(SERVICE).merge(router(&[UNKNOWN_STATISTIC]));
        let paths = SERVICE.iter().chain([&UNKNOWN_STATISTIC]).map(|route| route.path).collect();
        Self { guarded, open: open(SERVICE), paths, api, tokens: None }
    }

    /// Probes and metrics: open to whoever reaches the listener.
    pub fn admin(api: Arc<Api>) -> Self {
        Self { guarded: Router::new(), open: router(ADMIN), paths: admin_paths(), api, tokens: None }
    }

    /// Everything on one listener. Metrics are guarded there as the service is; orchestrators have no tokens, so that probes
    /// are not.
    pub fn all(api: Arc<Api>) -> Self {
        let Self { guarded: questions, open: described, mut paths, .. } = Self::service(api.clone());
        paths.append(&mut admin_paths());
        Self { guarded: questions.merge(guarded(ADMIN)), open: described.merge(open(ADMIN)), paths, api, tokens: None }
    }

    /// Asks for tokens where they are needed.
    pub fn with_tokens(self, tokens: Option<Tokens>) -> Self {
        Self { tokens, ..self }
    }

    /// Probes and metrics, and for everything else that it is too early.
    pub fn waiting(api: Arc<Api>) -> Self {
        const EVERYTHING: &str = "/v1/{*rest}";
        let open = open(ADMIN).route(EVERYTHING, any(probes::ready));
        let mut paths = admin_paths();
        paths.insert(EVERYTHING);
        Self { guarded: guarded(ADMIN), open, paths, api, tokens: None }
    }

    /// The routes as axum's own type, for tests that need no socket.
    pub fn into_router(self) -> Router {
        let observed = self.into_parts().0;
        Router::new().fallback_service(service_fn(move |request| {
            let answer = observed.clone().answer(request);
            async { Ok::<_, Infallible>(answer.await) }
        }))
    }

    pub(super) fn into_parts(self) -> (Observed, Arc<Api>) {
        let Self { guarded, open, paths, api, tokens } = self;
        // Where there are no tokens whoever comes may do everything: nobody is looked at.
        let everyone = tokens.is_none().then_some(Scope::Write);
        let router = match tokens {
            Some(tokens) if guarded.has_routes() => {
                let guard = Arc::new(Guard { tokens, metrics: api.metrics.clone() });
                guarded.route_layer(from_fn_with_state(guard, guard::admit))
            }
            _ => guarded,
        };
        let router = router
            .merge(open)
            .fallback(async || Problem::new(Kind::UnknownPath, "the paths begin with /v1/streams"))
            .method_not_allowed_fallback(async || {
                Problem::new(Kind::MethodNotAllowed, "the `allow` header lists the methods that the path takes")
            })
            .with_state(api.clone());
        (Observed::new(router, &paths, everyone, api.metrics.clone()), api)
    }
}

/// What a request needs to be allowed to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Nothing: probes and the description of the API.
    Open,
    /// Look at what the memory holds.
    Read,
    /// Change it, or cause work on the disk.
    Write,
    /// As the body says: a decision reads, unless its event is to be recorded.
    AsAsked,
}

/// One entry of the list of routes.
pub(super) struct Route {
    pub(super) path: &'static str,
    pub(super) access: Access,
    take: fn() -> MethodRouter<Arc<Api>>,
}

/// Everything that is served, but probes and metrics.
pub(super) const SERVICE: &[Route] = &[
    Route { path: "/v1/streams", access: Access::Read, take: || get(status::list) },
    Route { path: "/v1/streams/{stream}", access: Access::Read, take: || get(status::show) },
    Route { path: "/v1/streams/{stream}/decide", access: Access::AsAsked, take: || post(decide::decide) },
    Route {
        path: "/v1/streams/{stream}/frequency",
        access: Access::Read,
        take: || get(frequency::one).post(frequency::many),
    },
    Route {
        path: "/v1/streams/{stream}/aggregates/{aggregate}/sum",
        access: Access::Read,
        take: || get(aggregates::sum),
    },
    Route {
        path: "/v1/streams/{stream}/aggregates/{aggregate}/count",
        access: Access::Read,
        take: || get(aggregates::count),
    },
    Route {
        path: "/v1/streams/{stream}/aggregates/{aggregate}/mean",
        access: Access::Read,
        take: || get(aggregates::mean),
    },
    Route {
        path: "/v1/streams/{stream}/aggregates/{aggregate}/quantiles",
        access: Access::Read,
        take: || get(aggregates::quantiles),
    },
    Route {
        path: "/v1/streams/{stream}/aggregates/{aggregate}/rank",
        access: Access::Read,
        take: || get(aggregates::rank),
    },
    Route {
        path: "/v1/streams/{stream}/aggregates/{aggregate}/top",
        access: Access::Read,
        take: || get(aggregates::top),
    },
    Route {
        path: "/v1/streams/{stream}/aggregates/{aggregate}/share",
        access: Access::Read,
        take: || get(aggregates::share),
    },
    Route {
        path: "/v1/streams/{stream}/aggregates/{aggregate}/export",
        access: Access::Read,
        take: || get(aggregates::export),
    },
    Route {
        path: "/v1/streams/{stream}/aggregates/{aggregate}/merge/sum",
        access: Access::Read,
        take: || post(aggregates::merge_sum),
    },
    Route {
        path: "/v1/streams/{stream}/aggregates/{aggregate}/merge/count",
        access: Access::Read,
        take: || post(aggregates::merge_count),
    },
    Route {
        path: "/v1/streams/{stream}/aggregates/{aggregate}/merge/mean",
        access: Access::Read,
        take: || post(aggregates::merge_mean),
    },
    Route {
        path: "/v1/streams/{stream}/aggregates/{aggregate}/merge/quantiles",
        access: Access::Read,
        take: || post(aggregates::merge_quantiles),
    },
    Route {
        path: "/v1/streams/{stream}/aggregates/{aggregate}/merge/rank",
        access: Access::Read,
        take: || post(aggregates::merge_rank),
    },
    Route {
        path: "/v1/streams/{stream}/aggregates/{aggregate}/merge/top",
        access: Access::Read,
        take: || post(aggregates::merge_top),
    },
    Route {
        path: "/v1/streams/{stream}/aggregates/{aggregate}/merge/share",
        access: Access::Read,
        take: || post(aggregates::merge_share),
    },
    Route { path: "/v1/checkpoint", access: Access::Read, take: || get(checkpoint::show) },
    Route { path: "/v1/checkpoint", access: Access::Write, take: || post(checkpoint::take) },
    Route { path: "/openapi.json", access: Access::Open, take: || get(openapi::openapi_json) },
    Route { path: "/docs", access: Access::Open, take: || get(openapi::docs) },
    Route { path: "/problems", access: Access::Open, take: || get(problems::list) },
    Route { path: "/problems/{name}", access: Access::Open, take: || get(problems::show) },
];

/// Found by those who guess: it says which statistics there are.
const UNKNOWN_STATISTIC: Route = Route {
    path: "/v1/streams/{stream}/aggregates/{aggregate}/{statistic}",
    access: Access::Read,
    take: || get(aggregates::unknown),
};

/// Probes and metrics.
pub(super) const ADMIN: &[Route] = &[
    Route { path: "/livez", access: Access::Open, take: || get(probes::live) },
    Route { path: "/readyz", access: Access::Open, take: || get(probes::ready) },
    Route { path: "/healthz", access: Access::Open, take: || get(probes::health) },
    Route { path: "/metrics", access: Access::Read, take: || get(probes::metrics) },
];

fn admin_paths() -> BTreeSet<&'static str> {
    ADMIN.iter().map(|route| route.path).collect()
}

/// A path whose methods need different rights stands there once for each.
fn router<'a>(routes: impl IntoIterator<Item = &'a Route>) -> Router<Arc<Api>> {
    let methods = |route: &Route| match route.access {
        Access::Write => (route.take)().route_layer(from_fn(guard::require_write)),
        Access::Open | Access::Read | Access::AsAsked => (route.take)(),
    };
    routes.into_iter().fold(Router::new(), |all, route| all.route(route.path, methods(route)))
}

/// Those that need a right.
fn guarded(routes: &[Route]) -> Router<Arc<Api>> {
    router(routes.iter().filter(|route| route.access != Access::Open))
}

fn open(routes: &[Route]) -> Router<Arc<Api>> {
    router(routes.iter().filter(|route| route.access == Access::Open))
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
        Readiness::Waiting(why) => Err(Problem::new(Kind::NotReady, why)),
        Readiness::Failed(why) => Err(Problem::new(Kind::RestoreFailed, why)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_route_is_described_and_nothing_else() {
        let served: BTreeSet<&str> = SERVICE.iter().chain(ADMIN).map(|route| route.path).collect();
        let described = openapi::description();
        let described: BTreeSet<&str> = described.paths.paths.keys().map(String::as_str).collect();
        assert_eq!(served, described);
    }

    #[test]
    fn what_changes_something_needs_the_right_to_write() {
        let reads = |route: &&Route| route.access == Access::Read;
        let writes: Vec<&str> = SERVICE.iter().filter(|route| !reads(route)).map(|route| route.path).collect();
        assert!(writes.contains(&"/v1/streams/{stream}/decide") && writes.contains(&"/v1/checkpoint"));
        assert!(
            SERVICE.iter().filter(|route| route.path.starts_with("/v1/")).all(|route| route.access != Access::Open)
        );
    }
}
