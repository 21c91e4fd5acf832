//! TLS on a listener: certificates from files, exchanged without a restart; connections that are open keep theirs.

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

use super::fresh::{Fresh, FreshError};

/// PEM files.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The server's certificate first, then those that lead to its authority.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Where given, clients must show a certificate that one of these authorities signed.
    pub client_ca: Option<PathBuf>,
}

/// The certificates of a listener, as of now.
#[derive(Clone)]
pub struct Tls(Fresh<ServerConfig>);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

/// Why files do not make a TLS server.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("the certificate has no PEM section CERTIFICATE that can be read: {0}")]
    Certificate(pem::Error),
    #[error("the key has no PEM section PRIVATE KEY that can be read: {0}")]
    Key(pem::Error),
    #[error("client_ca is no list of PEM sections CERTIFICATE: {0}")]
    ClientCa(String),
    #[error("certificate and key do not make a server: {0}")]
    Pair(Error),
}

impl Tls {
    /// Reads the files now and again whenever they change. Within a runtime only.
    pub fn load(files: &TlsFiles, failures: IntCounter) -> Result<Self, FreshError<TlsError>> {
        let paths = [&files.certificate, &files.key].into_iter().chain(&files.client_ca).cloned().collect();
        Ok(Self(Fresh::follow(paths, server_config, failures)?))
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.0.get())
    }
}

/// From the contents of certificate, key and, when there is a third, `client_ca`.
fn server_config(contents: &[Vec<u8>]) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions().map_err(TlsError::Pair)?;
    let builder = match contents.get(2) {
        None => builder.with_no_client_auth(),
        Some(authorities) => builder.with_client_cert_verifier(verifier(authorities, provider)?),
    };
    let chain = certificates(&contents[0]).map_err(TlsError::Certificate)?;
    let key = PrivateKeyDer::from_pem_slice(&contents[1]).map_err(TlsError::Key)?;
    let mut config = builder.with_single_cert(chain, key).map_err(TlsError::Pair)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn verifier(
    authorities: &[u8],
    provider: Arc<crypto::CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let refused = |error: &dyn fmt::Display| TlsError::ClientCa(error.to_string());
    let mut roots = RootCertStore::empty();
    for authority in certificates(authorities).map_err(|error| refused(&error))? {
        roots.add(authority).map_err(|error| refused(&error))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().map_err(|error| refused(&error))
}

/// At least one.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    let all = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>()?;
    if all.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(all) }
}
