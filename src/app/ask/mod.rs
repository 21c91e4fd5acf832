//! `ebb ask`: sends one request to a running service and renders its answer for a terminal. It does not interpret answers:
//! any JSON is rendered.

mod render;

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;
use ureq::Agent;
use ureq::http::Response;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

pub use render::render;

/// Longer than the service's own request timeout.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum size of an answer.
const MAX_ANSWER_BYTES: u64 = 256 << 20;

/// A client of the HTTP API.
#[derive(Debug, Clone)]
pub struct ApiClient {
    agent: Agent,
    url: String,
    token: Option<String>,
}

/// One request to the HTTP API.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiRequest {
    /// The segments of the path.
    pub path: Vec<String>,
    pub query: Vec<(&'static str, String)>,
    /// With a body the request is a POST.
    pub body: Option<Value>,
}

/// An error response of the service.
#[derive(Debug, thiserror::Error)]
#[error("{title} ({status}){}", detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default())]
pub struct ApiProblem {
    pub status: u16,
    pub title: String,
    pub detail: Option<String>,
}

impl ApiClient {
    /// `token_file` contains a bearer token, `ca_file` the PEM certificates of the authority that signed the service's
    /// certificate.
    pub fn new(url: &str, token_file: Option<&Path>, ca_file: Option<&Path>) -> anyhow::Result<Self> {
        let read = |path: &Path| std::fs::read_to_string(path).with_context(|| path.display().to_string());
        let token = token_file.map(read).transpose()?.map(|text| text.trim().to_string());
        let mut tls = TlsConfig::builder();
        if let Some(path) = ca_file {
            tls = tls.root_certs(RootCerts::Specific(certificates(&read(path)?)?.into()));
        }
        let config = Agent::config_builder().http_status_as_error(false).timeout_global(Some(TIMEOUT));
        let agent = config.tls_config(tls.build()).build().new_agent();
        Ok(Self { agent, url: url.trim_end_matches('/').to_string(), token })
    }

    /// The answer, or an [`ApiProblem`] as an error.
    pub fn send(&self, request: &ApiRequest) -> anyhow::Result<Value> {
        let path: String = request.path.iter().map(|segment| format!("/{}", percent_encode(segment))).collect();
        let url = format!("{}{path}", self.url);
        let authorization = self.token.as_ref().map(|token| format!("Bearer {token}"));
        let response = match &request.body {
            None => {
                let query = request.query.iter().map(|(name, value)| (*name, value.as_str()));
                let call = self.agent.get(&url).query_pairs(query);
                authorization.iter().fold(call, |call, value| call.header("authorization", value)).call()
            }
            Some(body) => {
                let call = self.agent.post(&url).content_type("application/json");
                let call = authorization.iter().fold(call, |call, value| call.header("authorization", value));
                call.send(body.to_string())
            }
        };
        read_answer(response.with_context(|| format!("cannot reach {}", self.url))?)
    }
}

fn certificates(pem: &str) -> anyhow::Result<Vec<Certificate<'static>>> {
    let mut found = Vec::new();
    for item in ureq::tls::parse_pem(pem.as_bytes()) {
        if let ureq::tls::PemItem::Certificate(certificate) = item? {
            found.push(certificate);
        }
    }
    anyhow::ensure!(!found.is_empty(), "the CA file contains no certificate");
    Ok(found)
}

fn read_answer(mut response: Response<ureq::Body>) -> anyhow::Result<Value> {
    let status = response.status();
    let text = response.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_string()?;
    let value: Option<Value> = serde_json::from_str(&text).ok();
    match value {
        Some(value) if status.is_success() => Ok(value),
        None if status.is_success() => Ok(Value::String(text)),
        value => {
            let member = |name: &str| value.as_ref()?.get(name)?.as_str().map(str::to_string);
            let reason = status.canonical_reason().unwrap_or("refused");
            let title = member("title").unwrap_or_else(|| reason.to_string());
            Err(ApiProblem { status: status.as_u16(), title, detail: member("detail") }.into())
        }
    }
}

/// Percent-encodes everything except unreserved characters.
fn percent_encode(segment: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encode = |byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    segment.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_cannot_change_the_path() {
        assert_eq!(percent_encode("a/../b?c d"), "a%2F..%2Fb%3Fc%20d");
        assert_eq!(percent_encode("clicks-1.x"), "clicks-1.x");
    }
}
