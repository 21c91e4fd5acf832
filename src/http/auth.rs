//! Bearer-token authentication of requests.
//!
//! Only installed where tokens are configured. Whether a request reads or writes is known only to its handler (a decision
//! may record its event or not), so the middleware attaches the caller's [`Scope`] to the request and handlers that write
//! require [`Scope::Write`]. A request without a scope may only read.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::problem::{Problem, ProblemKind};
use super::tokens::{Scope, Tokens};
use crate::metrics::Metrics;

const SCHEME: &str = "bearer ";

/// State of the [`authenticate`] middleware.
#[derive(Debug)]
pub(super) struct TokenAuth {
    pub(super) tokens: Tokens,
    pub(super) metrics: Metrics,
}

pub(super) async fn authenticate(State(auth): State<Arc<TokenAuth>>, mut request: Request, next: Next) -> Response {
    match auth.scope_of(request.headers()) {
        Err(problem) => problem.into_response(),
        Ok(scope) => {
            request.extensions_mut().insert(scope);
            let response = next.run(request).await;
            if response.status() == StatusCode::FORBIDDEN {
                auth.count_refusal("scope");
            }
            response
        }
    }
}

impl TokenAuth {
    fn scope_of(&self, headers: &HeaderMap) -> Result<Scope, Problem> {
        let Some(token) = bearer_token(headers) else {
            self.count_refusal("missing");
            return Err(Problem::new(ProblemKind::TokenMissing, "send the header authorization: Bearer TOKEN, once"));
        };
        let Some(caller) = self.tokens.find(token) else {
            self.count_refusal("unknown");
            let detail = "the token is not in the tokens file; request one from the operator of the service";
            return Err(Problem::new(ProblemKind::TokenUnknown, detail));
        };
        tracing::Span::current().record("caller", &*caller.name);
        Ok(caller.scope)
    }

    fn count_refusal(&self, reason: &str) {
        self.metrics.http_refusals.with_label_values(&[reason]).inc();
    }
}

/// The token of the only `authorization` header, if its scheme is `Bearer`.
fn bearer_token(headers: &HeaderMap) -> Option<&[u8]> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(only), None) = (all.next(), all.next()) else { return None };
    let (scheme, token) = only.as_bytes().split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME.as_bytes()).then_some(token)
}

/// The scope of the caller of a request.
pub(super) fn scope(request: &Request) -> Scope {
    request.extensions().get().copied().unwrap_or(Scope::Read)
}

/// Middleware of routes that always write.
pub(super) async fn require_write(request: Request, next: Next) -> Response {
    match scope(&request).require_write() {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

impl Scope {
    pub(super) fn require_write(self) -> Result<(), Problem> {
        match self {
            Scope::Write => Ok(()),
            Scope::Read => {
                let detail = "the token has the scope read; use a token with the scope write";
                Err(Problem::new(ProblemKind::TokenReadOnly, detail))
            }
        }
    }
}
