//! The sockets of the service, bound before anything else starts, with their TLS certificates and tokens.

use std::net::{SocketAddr, TcpListener};

use anyhow::Context;

use super::file_permissions;
use crate::config::Config;
use crate::http::{Listener, ServerTls, TlsFiles, Tokens};
use crate::metrics::Metrics;

/// The bound sockets. Each can be served more than once: first while the brokers are awaited, then by the service.
pub(super) struct Listeners {
    service: TcpListener,
    /// Separate socket for probes and metrics, if configured.
    admin: Option<TcpListener>,
    tls: Option<ServerTls>,
    pub(super) tokens: Option<Tokens>,
}

impl Listeners {
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

    pub(super) fn service(&self) -> std::io::Result<Listener> {
        Ok(Listener { socket: duplicate(&self.service)?, tls: self.tls.clone() })
    }

    /// Always plain text.
    pub(super) fn admin(&self) -> std::io::Result<Option<Listener>> {
        self.admin.as_ref().map(|admin| duplicate(admin).map(Listener::from)).transpose()
    }
}

fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).with_context(|| format!("listening on {address}"))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Another handle to the same socket: connections that arrive between two servers stay in its queue.
fn duplicate(listener: &TcpListener) -> std::io::Result<tokio::net::TcpListener> {
    tokio::net::TcpListener::from_std(listener.try_clone()?)
}

/// An unusable file is an error at startup: the service must not run without the configured authentication.
fn tokens(config: &Config, metrics: &Metrics) -> anyhow::Result<Option<Tokens>> {
    let Some(file) = &config.http.tokens_file else { return Ok(None) };
    file_permissions::warn_if_world_readable(file);
    let failures = metrics.http_reload_failures.with_label_values(&["tokens"]);
    Ok(Some(Tokens::load(file, failures).context("http.tokens_file")?))
}

fn tls(config: &Config, metrics: &Metrics) -> anyhow::Result<Option<ServerTls>> {
    let Some(tls) = &config.http.tls else { return Ok(None) };
    file_permissions::warn_if_world_readable(&tls.key);
    let files =
        TlsFiles { certificate: tls.certificate.clone(), key: tls.key.clone(), client_ca: tls.client_ca.clone() };
    let failures = metrics.http_reload_failures.with_label_values(&["tls"]);
    Ok(Some(ServerTls::load(&files, failures).context("http.tls")?))
}
