//! The guard of the routes: lets in who shows a token that is on the list, and notes what the caller may do.
//!
//! Where no tokens are configured there is no guard. Whether a request reads or writes is known only where it is
//! understood (a decision may record or not), so that the guard leaves a [`Scope`] with the request, and who writes asks
//! for it. A request without a scope may only read.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::problem::{Kind, Problem};
use super::tokens::{Scope, Tokens};
use crate::metrics::Metrics;

const SCHEME: &str = "bearer ";

/// See the module.
#[derive(Debug)]
pub(super) struct Guard {
    pub(super) tokens: Tokens,
    pub(super) metrics: Metrics,
}

pub(super) async fn admit(State(guard): State<Arc<Guard>>, mut request: Request, next: Next) -> Response {
    match guard.scope_of(request.headers()) {
        Err(problem) => problem.into_response(),
        Ok(scope) => {
            request.extensions_mut().insert(scope);
            let response = next.run(request).await;
            if response.status() == StatusCode::FORBIDDEN {
                guard.count("scope");
            }
            response
        }
    }
}

impl Guard {
    fn scope_of(&self, headers: &HeaderMap) -> Result<Scope, Problem> {
        let Some(token) = shown(headers) else {
            self.count("missing");
            return Err(Problem::new(Kind::TokenMissing, "send the header authorization: Bearer TOKEN, once"));
        };
        let Some(caller) = self.tokens.find(token) else {
            self.count("unknown");
            return Err(Problem::new(Kind::TokenUnknown, "the token is not on the list; ask who runs the service"));
        };
        tracing::Span::current().record("caller", &*caller.name);
        Ok(caller.scope)
    }

    fn count(&self, reason: &str) {
        self.metrics.http_refusals.with_label_values(&[reason]).inc();
    }
}

/// The token of the only `authorization` header, if it is a bearer's.
fn shown(headers: &HeaderMap) -> Option<&[u8]> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(only), None) = (all.next(), all.next()) else { return None };
    let (scheme, token) = only.as_bytes().split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME.as_bytes()).then_some(token)
}

/// What the caller of a request may do.
pub(super) fn scope(request: &Request) -> Scope {
    request.extensions().get().copied().unwrap_or(Scope::Read)
}

/// Lets only those through who may write.
pub(super) async fn require_write(request: Request, next: Next) -> Response {
    match scope(&request).require_write() {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

impl Scope {
    /// Refuses who may only read.
    pub(super) fn require_write(self) -> Result<(), Problem> {
        match self {
            Scope::Write => Ok(()),
            Scope::Read => {
                Err(Problem::new(Kind::TokenReadOnly, "the token may only read; this needs one that may write"))
            }
        }
    }
}
