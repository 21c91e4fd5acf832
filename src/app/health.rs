//! One question to the instance on this machine, for orchestrators that can only run a command: is it ready?

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context;

use crate::config::Config;

/// Shorter than orchestrators usually wait for a command.
const PATIENCE: Duration = Duration::from_secs(4);

/// Nothing when the instance that runs with this configuration is ready, or what it says instead.
pub fn health(config: &Config) -> anyhow::Result<()> {
    let address = nearby(config.http.admin_listen.unwrap_or(config.http.listen));
    let is_encrypted = config.http.tls.is_some() && config.http.admin_listen.is_none();
    let scheme = if is_encrypted { "https" } else { "http" };
    let agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(PATIENCE))
        // The certificate is for the name that others know this instance by. Nothing secret is asked or told.
        .tls_config(ureq::tls::TlsConfig::builder().disable_verification(true).build())
        .build()
        .new_agent();
    let asked = agent.get(format!("{scheme}://{address}/readyz")).call();
    let mut answer = asked.with_context(|| format!("nobody answers at {address}"))?;
    let said = answer.body_mut().read_to_string().unwrap_or_default();
    anyhow::ensure!(answer.status() == 200, "not ready: {said}");
    Ok(())
}

/// Who listens everywhere also listens here.
fn nearby(address: SocketAddr) -> SocketAddr {
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
    fn an_instance_that_listens_everywhere_is_asked_here() {
        for (listen, asked) in [
            ("0.0.0.0:8080", "127.0.0.1:8080"),
            ("[::]:8080", "[::1]:8080"),
            ("127.0.0.1:1", "127.0.0.1:1"),
            ("10.0.0.7:9090", "10.0.0.7:9090"),
        ] {
            let listen: SocketAddr = listen.parse().expect("an address");
            assert_eq!(nearby(listen).to_string(), asked);
        }
    }
}
