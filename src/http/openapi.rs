//! The API, described: made from the same functions and types that serve it, and shown as a page to read and try.
//!
//! `tests/http/openapi.rs` holds that every route is described, and sends every example; `tests/contract` lets
//! schemathesis compare the description with the running service.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder};
use utoipa::{IntoResponses, OpenApi};

use super::problem::{Kind, Wire};
use super::{aggregates, checkpoint, decide, frequency, probes, problems, status};

/// See the module.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Ebb",
        description = "A forgetful memory for event streams: was this seen within the window, how often of late, and what \
                       do decayed sums, quantiles and top items say?\n\nMistakes are `application/problem+json` (RFC 9457) \
                       with a stable `type`; `/problems` lists them. Every answer carries `as_of`: up to where in the log \
                       it holds.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    tags(
        (name = "decisions", description = "Was it seen?"),
        (name = "frequency", description = "How often, of late?"),
        (name = "aggregates", description = "Sums, quantiles, top items, fading"),
        (name = "exports", description = "Aggregates of several instances or streams as one answer"),
        (name = "status", description = "Streams, shards and checkpoints in figures"),
        (name = "probes", description = "What orchestrators and scrapers ask; on the admin listener where there is one"),
        (name = "description", description = "This description"),
    ),
    paths(
        decide::decide,
        frequency::one, frequency::many,
        aggregates::sum, aggregates::count, aggregates::mean, aggregates::quantiles, aggregates::rank, aggregates::top,
        aggregates::share, aggregates::export,
        aggregates::merge_sum, aggregates::merge_count, aggregates::merge_mean, aggregates::merge_quantiles,
        aggregates::merge_rank, aggregates::merge_top, aggregates::merge_share,
        status::list, status::show, checkpoint::show, checkpoint::take,
        probes::live, probes::ready, probes::health, probes::metrics,
        problems::list, problems::show, openapi_json, docs,
    ),
    components(schemas(Wire<'static>, aggregates::Phi)),
)]
struct Description;

/// The problems that any request may meet.
pub(super) struct Common;

impl IntoResponses for Common {
    fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        let mut by_status: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
        for (name, status, _) in Kind::ALL.iter().map(|kind| kind.parts()) {
            by_status.entry(status).or_default().push(name);
        }
        let response = |(status, names): (u16, Vec<&str>)| {
            let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
            let described = ResponseBuilder::new()
                .description(format!("A problem of type {}", names.join(", ")))
                .content("application/problem+json", content);
            (status.to_string(), described.build().into())
        };
        by_status.into_iter().map(response).collect()
    }
}

pub(super) fn description() -> utoipa::openapi::OpenApi {
    let mut described = Description::openapi();
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(TOKENS)).build();
    let components = described.components.get_or_insert_default();
    components.add_security_scheme(BEARER, SecurityScheme::Http(bearer));
    // Without tokens in its configuration the service asks for none.
    described.security = Some(vec![SecurityRequirement::default(), SecurityRequirement::new(BEARER, [""; 0])]);
    described
}

const BEARER: &str = "bearer";
const TOKENS: &str = "Where tokens are configured: one that may read for questions, one that may write to record events and \
                      to take checkpoints.";

static JSON: LazyLock<String> =
    LazyLock::new(|| description().to_json().expect("a description is texts and lists: it has a JSON form"));

const PAGE: &str = include_str!("docs.html");
/// The page fetches nothing but the description and what its reader tries.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; \
                      form-action 'none'; frame-ancestors 'none'; base-uri 'none'";

/// This description
#[utoipa::path(
    get,
    path = "/openapi.json",
    tag = "description",
    responses((status = 200, description = "OpenAPI 3.1", body = serde_json::Value), Common),
)]
pub(super) async fn openapi_json() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], JSON.as_str()).into_response()
}

/// This description, to read and to try
#[utoipa::path(
    get,
    path = "/docs",
    tag = "description",
    responses((status = 200, description = "A page", body = String, content_type = "text/html"), Common),
)]
pub(super) async fn docs() -> Response {
    let policy = (HeaderName::from_static("content-security-policy"), HeaderValue::from_static(POLICY));
    let kind = (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    ([kind, policy], PAGE).into_response()
}
