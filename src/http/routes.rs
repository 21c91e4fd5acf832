//! The routes of the service, and the state that their handlers share.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodRouter, any, get, post};
use tower::service_fn;

use super::auth::{self, TokenAuth};
use super::edge::EdgeRejections;
use super::observe::ObservedRouter;
use super::problem::{Problem, ProblemKind};
use super::server::HttpLimits;
use super::tokens::{Scope, Tokens};
use super::{aggregates, checkpoint, decide, frequency, openapi, probes, problems, status};
use crate::metrics::Metrics;
use crate::workers::{Readiness, Stream, Streams};

/// The state that handlers share.
#[derive(Debug)]
pub struct Api {
    pub streams: Streams,
    pub metrics: Metrics,
    pub limits: HttpLimits,
    /// By stream.
    edge_rejections: BTreeMap<String, EdgeRejections>,
}

/// A set of routes to serve on one listener.
#[derive(Debug)]
pub struct Routes {
    /// Routes that require a token, if tokens are configured.
    guarded: Router<Arc<Api>>,
    open: Router<Arc<Api>>,
    paths: BTreeSet<&'static str>,
    api: Arc<Api>,
    tokens: Option<Tokens>,
}

impl Routes {
    /// The API of the service.
    pub fn service(api: Arc<Api>) -> Self {
        let paths = SERVICE.iter().map(|route| route.path).collect();
        Self { guarded: guarded(SERVICE), open: open(SERVICE), paths, api, tokens: None }
    }

    /// Probes and metrics, without authentication.
    pub fn admin(api: Arc<Api>) -> Self {
        Self { guarded: Router::new(), open: router(ADMIN), paths: admin_paths(), api, tokens: None }
    }

    /// Everything on one listener. Metrics require a token there, if tokens are configured; probes do not, because
    /// orchestrators have none.
    pub fn all(api: Arc<Api>) -> Self {
        let Self { guarded: service, open: service_open, mut paths, .. } = Self::service(api.clone());
        paths.append(&mut admin_paths());
        let (guarded, open) = (service.merge(guarded(ADMIN)), service_open.merge(open(ADMIN)));
        Self { guarded, open, paths, api, tokens: None }
    }

    /// Requires a token on the guarded routes.
    pub fn with_tokens(self, tokens: Option<Tokens>) -> Self {
        Self { tokens, ..self }
    }

    /// Probes and metrics; every other request is answered as `/readyz` is.
    pub fn waiting(api: Arc<Api>) -> Self {
        const EVERYTHING: &str = "/v1/{*rest}";
        let open = open(ADMIN).route(EVERYTHING, any(probes::ready));
        let mut paths = admin_paths();
        paths.insert(EVERYTHING);
        Self { guarded: guarded(ADMIN), open, paths, api, tokens: None }
    }

    /// An axum router, for tests without sockets.
    pub fn into_router(self) -> Router {
        let router = self.into_parts().0;
        Router::new().fallback_service(service_fn(move |request| {
            let response = router.clone().respond(request);
            async { Ok::<_, Infallible>(response.await) }
        }))
    }

    pub(super) fn into_parts(self) -> (ObservedRouter, Arc<Api>) {
        let Self { guarded, open, paths, api, tokens } = self;
        // Without tokens there is no authentication, and every caller may write.
        let default_scope = tokens.is_none().then_some(Scope::Write);
        let router = match tokens {
            Some(tokens) if guarded.has_routes() => {
                let state = Arc::new(TokenAuth { tokens, metrics: api.metrics.clone() });
                guarded.route_layer(from_fn_with_state(state, auth::authenticate))
            }
            _ => guarded,
        };
        let router = router
            .merge(open)
            .fallback(async || Problem::new(ProblemKind::UnknownPath, "the paths begin with /v1/streams; see /docs"))
            .method_not_allowed_fallback(async || {
                Problem::new(ProblemKind::MethodNotAllowed, "the `allow` header lists the methods of this path")
            })
            .with_state(api.clone());
        (ObservedRouter::new(router, &paths, default_scope, api.metrics.clone()), api)
    }
}

/// The permission that a route requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RouteAccess {
    /// None: probes and the description of the API.
    Open,
    /// Reads state.
    Read,
    /// Changes state or causes disk writes.
    Write,
    /// The handler decides: a decide request reads unless it records.
    ByRequest,
}

/// An entry of the route table.
pub(super) struct RouteEntry {
    pub(super) path: &'static str,
    pub(super) access: RouteAccess,
    methods: fn() -> MethodRouter<Arc<Api>>,
}

const fn route(path: &'static str, access: RouteAccess, methods: fn() -> MethodRouter<Arc<Api>>) -> RouteEntry {
    RouteEntry { path, access, methods }
}

/// Every route except probes and metrics.
pub(super) const SERVICE: &[RouteEntry] = &[
    route("/v1/streams", RouteAccess::Read, || get(status::list)),
    route("/v1/streams/{stream}", RouteAccess::Read, || get(status::show)),
    route("/v1/streams/{stream}/decide", RouteAccess::ByRequest, || post(decide::decide)),
    route("/v1/streams/{stream}/frequency", RouteAccess::Read, || get(frequency::one).post(frequency::many)),
    route("/v1/streams/{stream}/aggregates/{aggregate}/{statistic}", RouteAccess::Read, || get(aggregates::show)),
    route("/v1/streams/{stream}/aggregates/{aggregate}/export", RouteAccess::Read, || get(aggregates::export)),
    route("/v1/streams/{stream}/aggregates/{aggregate}/merge/export", RouteAccess::Read, || post(aggregates::combine)),
    route("/v1/streams/{stream}/aggregates/{aggregate}/merge/{statistic}", RouteAccess::Read, || {
        post(aggregates::merge)
    }),
    route("/v1/checkpoint", RouteAccess::Read, || get(checkpoint::show)),
    route("/v1/checkpoint", RouteAccess::Write, || post(checkpoint::take)),
    route("/openapi.json", RouteAccess::Open, || get(openapi::openapi_json)),
    route("/docs", RouteAccess::Open, || get(openapi::docs)),
    route("/problems", RouteAccess::Open, || get(problems::list)),
    route("/problems/{name}", RouteAccess::Open, || get(problems::show)),
];

/// Probes and metrics.
pub(super) const ADMIN: &[RouteEntry] = &[
    route("/livez", RouteAccess::Open, || get(probes::live)),
    route("/readyz", RouteAccess::Open, || get(probes::ready)),
    route("/healthz", RouteAccess::Open, || get(probes::health)),
    route("/metrics", RouteAccess::Read, || get(probes::metrics)),
];

fn admin_paths() -> BTreeSet<&'static str> {
    ADMIN.iter().map(|route| route.path).collect()
}

/// A path whose methods require different permissions has an entry for each.
fn router<'a>(routes: impl IntoIterator<Item = &'a RouteEntry>) -> Router<Arc<Api>> {
    let methods = |route: &RouteEntry| match route.access {
        RouteAccess::Write => (route.methods)().route_layer(from_fn(auth::require_write)),
        RouteAccess::Open | RouteAccess::Read | RouteAccess::ByRequest => (route.methods)(),
    };
    routes.into_iter().fold(Router::new(), |all, route| all.route(route.path, methods(route)))
}

fn guarded(routes: &[RouteEntry]) -> Router<Arc<Api>> {
    router(routes.iter().filter(|route| route.access != RouteAccess::Open))
}

fn open(routes: &[RouteEntry]) -> Router<Arc<Api>> {
    router(routes.iter().filter(|route| route.access == RouteAccess::Open))
}

impl Api {
    pub fn new(streams: Streams, metrics: Metrics, limits: HttpLimits) -> Self {
        let rejections = |name: &str| (name.to_owned(), EdgeRejections::new(name, &metrics));
        let edge_rejections = streams.iter().map(|(name, _)| rejections(name)).collect();
        Self { streams, metrics, limits, edge_rejections }
    }

    /// The stream that a path names.
    pub(super) fn stream(&self, name: Result<Path<String>, PathRejection>) -> Result<(String, &Stream), Problem> {
        let Path(name) = name.map_err(|_| invalid_path())?;
        match self.streams.get(&name) {
            Some(stream) => Ok((name, stream)),
            None => {
                let known: Vec<&str> = self.streams.iter().map(|(known, _)| known).collect();
                Err(Problem::new(ProblemKind::UnknownStream, format!("the streams are: {}", known.join(", "))))
            }
        }
    }

    /// The edge rejections of an existing stream.
    pub(super) fn edge_rejections(&self, stream: &str) -> &EdgeRejections {
        &self.edge_rejections[stream]
    }

    /// Fails unless every assigned shard is restored.
    pub(super) fn require_ready(&self) -> Result<(), Problem> {
        check(self.streams.readiness())
    }

    /// Fails unless new work should be sent to this instance.
    pub(super) fn require_accepting(&self) -> Result<(), Problem> {
        check(self.streams.serving_readiness())
    }
}

fn check(readiness: Readiness) -> Result<(), Problem> {
    match readiness {
        Readiness::Ready => Ok(()),
        Readiness::Stopping => {
            Err(Problem::new(ProblemKind::Stopping, "the service is shutting down; ask another instance"))
        }
        Readiness::Restoring => Err(Problem::new(ProblemKind::NotReady, "shards are being restored; retry soon")),
        Readiness::Waiting(why) => Err(Problem::new(ProblemKind::NotReady, why)),
        Readiness::Failed(why) => Err(Problem::new(ProblemKind::RestoreFailed, why)),
    }
}

pub(super) fn invalid_path() -> Problem {
    Problem::new(ProblemKind::InvalidPath, "a path segment must be UTF-8, percent-encoded where needed")
}

pub(super) fn parse_query<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, Problem> {
    match query {
        Ok(Query(query)) => Ok(query),
        Err(error) => {
            let text = error.body_text();
            let detail = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text).to_owned();
            Err(Problem::new(ProblemKind::InvalidQuery, detail))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn description_contains_exactly_the_served_paths() {
        let served: BTreeSet<&str> = SERVICE.iter().chain(ADMIN).map(|route| route.path).collect();
        let description = openapi::description();
        let described: BTreeSet<&str> = description.paths.paths.keys().map(String::as_str).collect();
        assert_eq!(served, described);
    }

    #[test]
    fn api_routes_require_a_token_and_writes_require_the_write_scope() {
        let not_read = |route: &&RouteEntry| route.access != RouteAccess::Read;
        let writes: Vec<&str> = SERVICE.iter().filter(not_read).map(|route| route.path).collect();
        assert!(writes.contains(&"/v1/streams/{stream}/decide") && writes.contains(&"/v1/checkpoint"));
        let mut api = SERVICE.iter().filter(|route| route.path.starts_with("/v1/"));
        assert!(api.all(|route| route.access != RouteAccess::Open));
    }
}
