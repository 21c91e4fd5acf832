//! TLS: handshakes, client certificates and reloading.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ebb::http::{HttpLimits, ServerTls, TlsFiles};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

use super::server::{ClientInput, HANG_TIMEOUT, SHORT, Server, eventually, no_timeouts};
use super::support::event;

/// A certificate authority.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// A certificate and its key.
    fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

/// The TLS files of a server.
struct Files {
    dir: TempDir,
    client_ca: Option<PathBuf>,
}

impl Files {
    fn new(authority: &Authority) -> Self {
        let files = Self { dir: tempfile::tempdir().unwrap(), client_ca: None };
        files.replace(authority);
        files
    }

    fn with_client_ca(authority: &Authority, clients: &Authority) -> Self {
        let mut files = Self::new(authority);
        let path = files.dir.path().join("ca.crt");
        std::fs::write(&path, &clients.pem).unwrap();
        files.client_ca = Some(path);
        files
    }

    fn replace(&self, authority: &Authority) {
        let (certificate, key) = authority.sign("localhost");
        std::fs::write(self.path("tls.key"), key).unwrap();
        std::fs::write(self.path("tls.crt"), certificate).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    async fn serve(&self, limits: HttpLimits) -> Server {
        let files = TlsFiles {
            certificate: self.path("tls.crt"),
            key: self.path("tls.key"),
            client_ca: self.client_ca.clone(),
        };
        let load = |metrics: &ebb::metrics::Metrics| {
            ServerTls::load(&files, metrics.http_reload_failures.with_label_values(&["tls"])).unwrap()
        };
        Server::with_tls(limits, |metrics| Some(load(metrics))).await
    }
}

/// Sends a request over HTTPS from a client that trusts `authority`: the status or the error.
async fn decide(server: &Server, authority: &Authority, own: Option<(String, String)>) -> Result<u16, String> {
    let (url, trusted) =
        (format!("https://localhost:{}/v1/streams/clicks/decide", server.address.port()), &authority.pem);
    let roots = RootCerts::new_with_certs(&[Certificate::from_pem(trusted.as_bytes()).unwrap()]);
    let shown = own.map(|(certificate, key)| {
        let key = PrivateKey::from_pem(key.as_bytes()).unwrap();
        ClientCert::new_with_certs(&[Certificate::from_pem(certificate.as_bytes()).unwrap()], key)
    });
    let tls = TlsConfig::builder().root_certs(roots).client_cert(shown).build();
    let asking = tokio::task::spawn_blocking(move || {
        let config = ureq::Agent::config_builder().tls_config(tls).timeout_global(Some(HANG_TIMEOUT)).build();
        let request = ureq::Agent::new_with_config(config).post(url).content_type("application/json");
        let answer = request.send(format!(r#"{{"event":{}}}"#, event("a", 0)));
        answer.map(|answer| answer.status().as_u16()).map_err(|error| error.to_string())
    });
    asking.await.unwrap()
}

#[tokio::test]
async fn requests_over_tls_are_answered_and_plain_text_is_not() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let server = Files::new(&ours).serve(no_timeouts()).await;
    assert_eq!(decide(&server, &ours, None).await, Ok(200));
    let refused = decide(&server, &theirs, None).await.unwrap_err();
    assert!(refused.to_lowercase().contains("certificate"), "{refused}");
    let plain = server.exchange(super::server::decision("").as_bytes()).await;
    assert!(!plain.contains("HTTP"), "plain text is not answered: {plain}");
    let metrics = &server.service.api.metrics;
    eventually("both failures are counted", || metrics.http_handshake_failures.get() == 2).await;
    assert_eq!(decide(&server, &ours, None).await, Ok(200));
}

#[tokio::test]
async fn client_without_a_trusted_certificate_cannot_send_a_request() {
    let (ours, clients, others) = (Authority::new("ours"), Authority::new("clients"), Authority::new("others"));
    let server = Files::with_client_ca(&ours, &clients).serve(no_timeouts()).await;
    assert_eq!(decide(&server, &ours, Some(clients.sign("billing"))).await, Ok(200));
    assert!(decide(&server, &ours, Some(others.sign("billing"))).await.is_err());
    assert!(decide(&server, &ours, None).await.is_err());
    let requests = server.service.api.metrics.text();
    assert!(requests.contains(r#"decide",status="200"} 1"#), "{requests}");
}

#[tokio::test]
async fn slow_handshake_is_closed() {
    let server =
        Files::new(&Authority::new("ours")).serve(HttpLimits { handshake_timeout: SHORT, ..no_timeouts() }).await;
    let started = Instant::now();
    let mut silent = server.connect().await;
    let mut slow = server.connect().await;
    // The start of a handshake record of 512 bytes.
    let mut bytes = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3].into_iter().chain(std::iter::repeat(0));
    loop {
        slow.send(&[bytes.next().unwrap()]).await;
        match slow.within(Duration::from_millis(25)).await {
            ClientInput::Nothing => assert!(started.elapsed() < HANG_TIMEOUT, "the slow handshake is not closed"),
            ClientInput::End => break,
            ClientInput::Bytes(bytes) => panic!("{bytes}"),
        }
    }
    assert_eq!(silent.rest().await, "");
    assert!(started.elapsed() >= SHORT);
    assert_eq!(server.timeouts("handshake"), 2);
    eventually("the connections are closed", || server.service.api.metrics.http_connections.get() == 0).await;
}

#[tokio::test]
async fn unfinished_handshake_does_not_delay_shutdown() {
    let server = Files::new(&Authority::new("ours")).serve(no_timeouts()).await;
    let mut silent = server.connect().await;
    eventually("it is accepted", || server.service.api.metrics.http_connections.get() == 1).await;
    let (serving, _service) = server.shut_down();
    tokio::time::timeout(HANG_TIMEOUT, serving).await.expect("shutdown does not wait").unwrap();
    assert_eq!(silent.rest().await, "");
}

#[tokio::test]
async fn certificates_are_reloaded_and_invalid_ones_are_ignored() {
    let (before, after) = (Authority::new("before"), Authority::new("after"));
    let files = Files::new(&before);
    let server = files.serve(no_timeouts()).await;
    assert_eq!(decide(&server, &before, None).await, Ok(200));
    let failures = server.service.api.metrics.http_reload_failures.with_label_values(&["tls"]);
    std::fs::write(files.path("tls.key"), after.sign("localhost").1).unwrap();
    eventually("the mismatched key was noticed", || failures.get() == 1).await;
    assert_eq!(decide(&server, &before, None).await, Ok(200));
    files.replace(&after);
    let started = Instant::now();
    while decide(&server, &after, None).await != Ok(200) {
        assert!(started.elapsed() < HANG_TIMEOUT, "the files are not reloaded");
    }
    assert!(decide(&server, &before, None).await.is_err());
}

#[tokio::test]
async fn invalid_tls_files_are_refused_with_the_reason() {
    let authority = Authority::new("ours");
    let files = Files::new(&authority);
    let load = |certificate: &Path, key: &Path, client_ca: Option<&Path>| {
        let files =
            TlsFiles { certificate: certificate.into(), key: key.into(), client_ca: client_ca.map(Path::to_owned) };
        let failures = ebb::metrics::Metrics::new().http_reload_failures.with_label_values(&["tls"]);
        ServerTls::load(&files, failures).err().map_or("accepted".into(), |error| error.to_string())
    };
    let (certificate, key, absent) = (files.path("tls.crt"), files.path("tls.key"), files.path("absent"));
    std::fs::write(files.path("large"), vec![b'a'; (1 << 20) + 1]).unwrap();
    for (error, expected) in [
        (load(&key, &key, None), "certificate: no readable PEM section"),
        (load(&certificate, &certificate, None), "key: no readable PEM section"),
        (load(&certificate, &key, Some(&key)), "client_ca: not a list"),
        (load(&absent, &key, None), "No such file"),
        (load(&files.path("large"), &key, None), "has more than"),
    ] {
        assert!(error.contains(expected), "{error}");
    }
    std::fs::write(&key, authority.sign("localhost").1).unwrap();
    let error = load(&certificate, &key, None);
    assert!(error.contains("invalid TLS certificate or key"), "{error}");
}
