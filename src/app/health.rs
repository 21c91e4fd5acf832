//! `ebb health`: whether the instance on this machine is ready, for orchestrators that can only run a command.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context;

use crate::config::Config;

/// Shorter than the usual timeout of an orchestrator's command.
const TIMEOUT: Duration = Duration::from_secs(4);

/// Succeeds if the instance with this configuration is ready; otherwise the error contains its answer.
pub fn health(config: &Config) -> anyhow::Result<()> {
    let address = local_address(config.http.admin_listen.unwrap_or(config.http.listen));
    let is_encrypted = config.http.tls.is_some() && config.http.admin_listen.is_none();
    let scheme = if is_encrypted { "https" } else { "http" };
    let agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(TIMEOUT))
        // The certificate is issued for the public name of this instance. The request and its answer are not secret.
        .tls_config(ureq::tls::TlsConfig::builder().disable_verification(true).build())
        .build()
        .new_agent();
    let response = agent.get(format!("{scheme}://{address}/readyz")).call();
    let mut response = response.with_context(|| format!("no answer from {address}"))?;
    let body = response.body_mut().read_to_string().unwrap_or_default();
    anyhow::ensure!(response.status() == 200, "not ready: {body}");
    Ok(())
}

/// An unspecified address includes the loopback address.
fn local_address(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        other => other,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unspecified_address_is_queried_on_loopback() {
        for (listen, expected) in [
            ("0.0.0.0:8080", "127.0.0.1:8080"),
            ("[::]:8080", "[::1]:8080"),
            ("127.0.0.1:1", "127.0.0.1:1"),
            ("10.0.0.7:9090", "10.0.0.7:9090"),
        ] {
            let listen: SocketAddr = listen.parse().expect("an address");
            assert_eq!(local_address(listen).to_string(), expected);
        }
    }
}
