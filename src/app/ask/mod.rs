//! `ebb ask`: one request to a running service, and its answer for a terminal. Knows paths and JSON, not what they mean:
//! whatever the service answers is shown.

mod show;

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;
use ureq::Agent;
use ureq::http::Response;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

pub use show::show;

/// Longer than the service itself lets a request take.
const DEADLINE: Duration = Duration::from_secs(60);
/// No answer is longer.
const ANSWER_BYTES: u64 = 256 << 20;

/// Where to ask, and as whom.
#[derive(Debug, Clone)]
pub struct Remote {
    agent: Agent,
    url: String,
    token: Option<String>,
}

/// One question, as the service takes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Segments of the path.
    pub path: Vec<String>,
    pub query: Vec<(&'static str, String)>,
    /// A body makes it a POST.
    pub body: Option<Value>,
}

/// What the service refused, in its own words.
#[derive(Debug, thiserror::Error)]
#[error("{title} ({status}){}", detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default())]
pub struct Problem {
    pub status: u16,
    pub title: String,
    pub detail: Option<String>,
}

impl Remote {
    /// `token_file` holds a bearer token, `ca_file` the certificates (PEM) that the service's own is signed by.
    pub fn new(url: &str, token_file: Option<&Path>, ca_file: Option<&Path>) -> anyhow::Result<Self> {
        let read = |path: &Path| std::fs::read_to_string(path).with_context(|| path.display().to_string());
        let token = token_file.map(read).transpose()?.map(|text| text.trim().to_string());
        let mut tls = TlsConfig::builder();
        if let Some(path) = ca_file {
            tls = tls.root_certs(RootCerts::Specific(certificates(&read(path)?)?.into()));
        }
        let config = Agent::config_builder().http_status_as_error(false).timeout_global(Some(DEADLINE));
        let agent = config.tls_config(tls.build()).build().new_agent();
        Ok(Self { agent, url: url.trim_end_matches('/').to_string(), token })
    }

    /// The answer, or the problem as an error.
    pub fn ask(&self, request: &Request) -> anyhow::Result<Value> {
        let path: String = request.path.iter().map(|segment| format!("/{}", encoded(segment))).collect();
        let url = format!("{}{path}", self.url);
        let authorization = self.token.as_ref().map(|token| format!("Bearer {token}"));
        let answered = match &request.body {
            None => {
                let query = request.query.iter().map(|(name, value)| (*name, value.as_str()));
                let asked = self.agent.get(&url).query_pairs(query);
                authorization.iter().fold(asked, |asked, value| asked.header("authorization", value)).call()
            }
            Some(body) => {
                let asked = self.agent.post(&url).content_type("application/json");
                let asked = authorization.iter().fold(asked, |asked, value| asked.header("authorization", value));
                asked.send(body.to_string())
            }
        };
        read_answer(answered.with_context(|| format!("asking {}", self.url))?)
    }
}

fn certificates(pem: &str) -> anyhow::Result<Vec<Certificate<'static>>> {
    let mut found = Vec::new();
    for item in ureq::tls::parse_pem(pem.as_bytes()) {
        if let ureq::tls::PemItem::Certificate(certificate) = item? {
            found.push(certificate);
        }
    }
    anyhow::ensure!(!found.is_empty(), "the CA file holds no certificate");
    Ok(found)
}

fn read_answer(mut response: Response<ureq::Body>) -> anyhow::Result<Value> {
    let status = response.status();
    let text = response.body_mut().with_config().limit(ANSWER_BYTES).read_to_string()?;
    let value: Option<Value> = serde_json::from_str(&text).ok();
    match value {
        Some(value) if status.is_success() => Ok(value),
        None if status.is_success() => Ok(Value::String(text)),
        value => {
            let member = |name: &str| value.as_ref()?.get(name)?.as_str().map(str::to_string);
            let reason = status.canonical_reason().unwrap_or("refused");
            let title = member("title").unwrap_or_else(|| reason.to_string());
            Err(Problem { status: status.as_u16(), title, detail: member("detail") }.into())
        }
    }
}

/// Everything that is not plain becomes %XX.
fn encoded(segment: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encode = |byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    segment.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_cannot_leave_its_place() {
        assert_eq!(encoded("a/../b?c d"), "a%2F..%2Fb%3Fc%20d");
        assert_eq!(encoded("clicks-1.x"), "clicks-1.x");
    }
}
