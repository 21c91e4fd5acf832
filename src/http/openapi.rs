//! The OpenAPI description, generated from the handlers and types that serve the API, and a page that displays it.
//!
//! Tests check that every route is described (`routes.rs`), that every example works and that the service behaves as
//! described (`tests/contract`).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder};
use utoipa::{IntoResponses, OpenApi, ToSchema};

use super::decide_request::DecideRequest;
use super::decide_schema::restrict_to_combinations;
use super::problem::{ProblemKind, ProblemResponse};
use super::{aggregates, checkpoint, decide, frequency, probes, problems, status};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Ebb",
        description = "Deduplication, decayed counts and decayed aggregates of event streams.\n\nErrors are \
                       `application/problem+json` (RFC 9457) with a stable `type`; `/problems` lists all types. Answers \
                       carry `as_of`, the position of the log at which they hold.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    tags(
        (name = "decisions", description = "Whether events are duplicates"),
        (name = "frequency", description = "Decayed counts of items"),
        (name = "aggregates", description = "Decayed sums, quantiles and top items"),
        (name = "exports", description = "Statistics over the aggregates of several instances or streams"),
        (name = "status", description = "State of streams, shards and checkpoints"),
        (name = "probes", description = "Health probes and metrics; on the admin listener if one is configured"),
        (name = "description", description = "The API description and the problem types"),
    ),
    paths(
        decide::decide,
        frequency::one, frequency::many,
        aggregates::show, aggregates::merge, aggregates::combine, aggregates::export,
        status::list, status::show, checkpoint::show, checkpoint::take,
        probes::live, probes::ready, probes::health, probes::metrics,
        problems::list, problems::show, openapi_json, docs,
    ),
    components(schemas(ProblemResponse<'static>, aggregates::Phi)),
)]
struct ApiDescription;

/// The problems that any request can be answered with.
pub(super) struct ProblemResponses;

impl IntoResponses for ProblemResponses {
    fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        let mut by_status: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
        for kind in ProblemKind::ALL {
            by_status.entry(kind.status()).or_default().push(kind.slug());
        }
        let response = |(status, slugs): (u16, Vec<&str>)| {
            let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
            let response = ResponseBuilder::new()
                .description(format!("A problem of type {}", slugs.join(", ")))
                .content("application/problem+json", content);
            (status.to_string(), response.build().into())
        };
        by_status.into_iter().map(response).collect()
    }
}

pub(super) fn description() -> utoipa::openapi::OpenApi {
    let mut description = ApiDescription::openapi();
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(TOKENS)).build();
    let components = description.components.get_or_insert_default();
    components.add_security_scheme(BEARER, SecurityScheme::Http(bearer));
    let decide = components.schemas.get_mut(DecideRequest::name().as_ref());
    restrict_to_combinations(decide.expect("the decide operation refers to its request"));
    // Tokens are optional: the service requires them only if they are configured.
    description.security = Some(vec![SecurityRequirement::default(), SecurityRequirement::new(BEARER, [""; 0])]);
    description
}

const BEARER: &str = "bearer";
const TOKENS: &str = "Required if tokens are configured. The scope `read` permits questions; the scope `write` also permits \
                      recording events and storing checkpoints.";

static JSON: LazyLock<String> =
    LazyLock::new(|| description().to_json().expect("an OpenAPI description serializes to JSON"));

const PAGE: &str = include_str!("docs.html");
/// The page loads only the description and sends only the requests of its user.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; \
                      form-action 'none'; frame-ancestors 'none'; base-uri 'none'";

/// OpenAPI description
#[utoipa::path(
    get,
    path = "/openapi.json",
    tag = "description",
    responses((status = 200, description = "OpenAPI 3.1", body = serde_json::Value), ProblemResponses),
)]
pub(super) async fn openapi_json() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], JSON.as_str()).into_response()
}

/// Interactive API documentation
#[utoipa::path(
    get,
    path = "/docs",
    tag = "description",
    responses((status = 200, description = "An HTML page", body = String, content_type = "text/html"), ProblemResponses),
)]
pub(super) async fn docs() -> Response {
    let policy = (HeaderName::from_static("content-security-policy"), HeaderValue::from_static(POLICY));
    let content_type = (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    ([content_type, policy], PAGE).into_response()
}
