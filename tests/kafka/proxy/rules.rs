//! Which faults the proxy injects, and counts of those that happened.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Api, RequestHeader};

/// The direction of a byte stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    ToBroker,
    ToClient,
}

/// Network conditions of all connections.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct NetworkConditions {
    /// Bytes in this direction are not read: the connection stays open but is silent.
    pub stalled: Option<Direction>,
    /// Latency added to each frame, plus up to `jitter`.
    pub delay: Duration,
    pub jitter: Duration,
    pub bytes_per_second: Option<u64>,
    /// New connections are closed at once.
    pub refuses_connections: bool,
}

/// A fault of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestFault {
    /// The broker does not receive the request; the connection stays open.
    Drop,
    /// The connection is cut before the broker receives the request.
    Cut,
    /// The broker handles the request; the connection is cut before the client receives the response.
    DropResponse,
    /// The request is held until [`Proxy::release`](super::Proxy::release) sends it on a new connection; its sender gets
    /// no response.
    Hold,
    /// The request is sent twice; the client receives both responses.
    Duplicate,
    /// The broker does not receive the request; the client receives a success response. Only for adding partitions or
    /// offsets to a transaction.
    FakeSuccess,
    /// The request is sent after this delay.
    Delay(Duration),
    /// One bit of the response is flipped. A response too small to contain records is spared and the rule moves on to
    /// the next one.
    CorruptResponse,
}

/// The requests that a fault applies to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultRule {
    pub api: Api,
    /// Prefix of the client id.
    pub client: String,
    /// The number of matching requests that pass first.
    pub after: u64,
    /// The number of requests that the fault then applies to.
    pub times: u64,
    pub fault: RequestFault,
}

impl FaultRule {
    /// Applies to the next request of any client.
    pub fn next(api: Api, fault: RequestFault) -> Self {
        Self { api, client: String::new(), after: 0, times: 1, fault }
    }
}

/// What the proxy forwarded and which faults it injected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProxyCounts {
    pub accepted: u64,
    pub refused: u64,
    pub ended: u64,
    /// Requests by API key.
    pub requests: BTreeMap<i16, u64>,
    /// Requests that a rule applied to.
    pub faults: u64,
    /// Responses with a flipped bit.
    pub corrupted: u64,
}

/// Finds the rule for a request, uses it once and removes it when it is used up.
pub(super) fn apply_rule(rules: &mut Vec<FaultRule>, header: &RequestHeader) -> Option<RequestFault> {
    let rule = rules.iter_mut().find(|rule| rule.api == header.api && header.client.starts_with(&rule.client))?;
    if rule.after > 0 {
        rule.after -= 1;
        return None;
    }
    let fault = rule.fault;
    rule.times -= 1;
    rules.retain(|rule| rule.times > 0);
    Some(fault)
}
