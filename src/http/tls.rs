//! TLS of a listener: certificates from PEM files, replaced without a restart. Open connections keep the certificate of
//! their handshake.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use prometheus::IntCounter;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::{Error, RootCertStore, ServerConfig, crypto};

use super::reloading::{ReloadError, Reloading};

/// Paths of PEM files.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The server's certificate, followed by its intermediate certificates.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// If set, clients must present a certificate signed by one of these authorities.
    pub client_ca: Option<PathBuf>,
}

/// The current TLS configuration of a listener.
#[derive(Clone)]
pub struct ServerTls(Reloading<ServerConfig>);

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerTls")
    }
}

/// Why the files are not a TLS server configuration.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("certificate: no readable PEM section CERTIFICATE: {0}")]
    Certificate(pem::Error),
    #[error("key: no readable PEM section PRIVATE KEY: {0}")]
    Key(pem::Error),
    #[error("client_ca: not a list of PEM sections CERTIFICATE: {0}")]
    ClientCa(String),
    #[error("invalid TLS certificate or key: {0}")]
    Pair(Error),
}

impl ServerTls {
    /// Reads the files now and whenever they change. Must be called within a Tokio runtime.
    pub fn load(files: &TlsFiles, failures: IntCounter) -> Result<Self, ReloadError<TlsError>> {
        let paths = [&files.certificate, &files.key].into_iter().chain(&files.client_ca).cloned().collect();
        Ok(Self(Reloading::start(paths, server_config, failures)?))
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.0.get())
    }
}

/// `contents`: certificate, key and optionally `client_ca`.
fn server_config(contents: &[Vec<u8>]) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions().map_err(TlsError::Pair)?;
    let builder = match contents.get(2) {
        None => builder.with_no_client_auth(),
        Some(authorities) => builder.with_client_cert_verifier(client_verifier(authorities, provider)?),
    };
    let chain = certificates(&contents[0]).map_err(TlsError::Certificate)?;
    let key = PrivateKeyDer::from_pem_slice(&contents[1]).map_err(TlsError::Key)?;
    let mut config = builder.with_single_cert(chain, key).map_err(TlsError::Pair)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn client_verifier(
    authorities: &[u8],
    provider: Arc<crypto::CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let invalid = |error: &dyn fmt::Display| TlsError::ClientCa(error.to_string());
    let mut roots = RootCertStore::empty();
    for authority in certificates(authorities).map_err(|error| invalid(&error))? {
        roots.add(authority).map_err(|error| invalid(&error))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().map_err(|error| invalid(&error))
}

/// At least one certificate.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    let all = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>()?;
    if all.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(all) }
}
