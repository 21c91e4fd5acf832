//! Where clients come in: bound once, before anything else is waited for, and opened as often as somebody serves there.

use std::net::{SocketAddr, TcpListener};

use anyhow::Context;

use super::secret;
use crate::config::Config;
use crate::http::{Entrance, Tls, TlsFiles, Tokens};
use crate::metrics::Metrics;

/// See the module.
pub(super) struct Doors {
    service: TcpListener,
    /// Where probes and metrics are answered, when that is elsewhere.
    admin: Option<TcpListener>,
    tls: Option<Tls>,
    pub(super) tokens: Option<Tokens>,
}

impl Doors {
    pub(super) fn bind(config: &Config, metrics: &Metrics) -> anyhow::Result<Self> {
        Ok(Self {
            service: bind(config.http.listen)?,
            admin: config.http.admin_listen.map(bind).transpose()?,
            tls: tls(config, metrics)?,
            tokens: tokens(config, metrics)?,
        })
    }

    pub(super) fn address(&self) -> std::io::Result<SocketAddr> {
        self.service.local_addr()
    }

    pub(super) fn service(&self) -> std::io::Result<Entrance> {
        Ok(Entrance { listener: accept(&self.service)?, tls: self.tls.clone() })
    }

    pub(super) fn admin(&self) -> std::io::Result<Option<Entrance>> {
        self.admin.as_ref().map(|admin| accept(admin).map(Entrance::from)).transpose()
    }
}

fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).with_context(|| format!("listening on {address}"))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// One more way to accept on a socket: connections that arrive while one way ends are taken by the next.
fn accept(listener: &TcpListener) -> std::io::Result<tokio::net::TcpListener> {
    tokio::net::TcpListener::from_std(listener.try_clone()?)
}

/// A file that cannot be used at the start ends it: nobody is let in by mistake.
fn tokens(config: &Config, metrics: &Metrics) -> anyhow::Result<Option<Tokens>> {
    let Some(file) = &config.http.tokens_file else { return Ok(None) };
    secret::warn_when_open_to_others(file);
    let failures = metrics.http_reload_failures.with_label_values(&["tokens"]);
    Ok(Some(Tokens::load(file, failures).context("http.tokens_file")?))
}

fn tls(config: &Config, metrics: &Metrics) -> anyhow::Result<Option<Tls>> {
    let Some(keys) = &config.http.tls else { return Ok(None) };
    secret::warn_when_open_to_others(&keys.key);
    let files =
        TlsFiles { certificate: keys.certificate.clone(), key: keys.key.clone(), client_ca: keys.client_ca.clone() };
    Ok(Some(Tls::load(&files, metrics.http_reload_failures.with_label_values(&["tls"])).context("http.tls")?))
}
