//! Certificates for one test, created with openssl: an authority, a broker and a client certificate, and an untrusted
//! authority.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The password of the client's key.
pub const KEY_PASSWORD: &str = "of the key";

/// A directory of certificate and key files.
#[derive(Debug)]
pub struct Certificates {
    directory: PathBuf,
}

impl Certificates {
    /// Creates the files for a broker on localhost and a client named `ebb`.
    pub fn create(directory: PathBuf) -> Self {
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).expect("create the directory");
        let certificates = Self { directory };
        certificates.authority("ca");
        certificates.authority("untrusted");
        certificates.signed("broker", "localhost", None);
        certificates.signed("client", "ebb", Some(KEY_PASSWORD));
        let store = [certificates.read("broker.key"), certificates.read("broker.pem")].concat();
        fs::write(certificates.path("broker.store.pem"), store).expect("write the broker's key store");
        certificates
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The path of a file as text, for configurations.
    pub fn path_text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("read a file of openssl")
    }

    fn authority(&self, name: &str) {
        let (key, certificate, subject) = (format!("{name}.key"), format!("{name}.pem"), format!("/CN={name}"));
        let request = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", &subject];
        openssl(&self.directory, &[&request[..], &["-keyout", &key, "-out", &certificate]].concat());
    }

    fn signed(&self, name: &str, subject: &str, password: Option<&str>) {
        let file = |extension: &str| format!("{name}.{extension}");
        let (key, csr, signed, subject) = (file("key"), file("csr"), file("pem"), format!("/CN={subject}"));
        let password = password.map(|password| format!("pass:{password}"));
        let protection = password.as_ref().map_or(vec!["-nodes"], |password| vec!["-passout", password]);
        let request = ["req", "-newkey", "rsa:2048", "-subj", &subject, "-keyout", &key, "-out", &csr];
        openssl(&self.directory, &[&request[..], &protection].concat());
        fs::write(self.path("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n").expect("write the extension file");
        let sign = ["x509", "-req", "-in", &csr, "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"];
        openssl(&self.directory, &[&sign[..], &["-days", "2", "-extfile", "names", "-out", &signed]].concat());
    }
}

fn openssl(directory: &Path, arguments: &[&str]) {
    let output = Command::new("openssl").args(arguments).current_dir(directory).stdin(Stdio::null()).output();
    let output = output.expect("run openssl (installed by scripts/setup.sh kafka)");
    assert!(output.status.success(), "openssl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}
