//! Certificates for one test, made by the openssl program: an authority, what it has signed, and another authority that
//! nobody should believe.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What protects the client's key.
pub const KEY_PASSWORD: &str = "of the key";

/// The folder of the files.
#[derive(Debug)]
pub struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    /// Everything that a broker on this machine and a client called `ebb` need.
    pub fn make(folder: PathBuf) -> Self {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder for certificates");
        let made = Self { folder };
        made.authority("ca");
        made.authority("stranger");
        made.signed("broker", "localhost", None);
        made.signed("client", "ebb", Some(KEY_PASSWORD));
        let store = [made.read("broker.key"), made.read("broker.pem")].concat();
        fs::write(made.path("broker.store.pem"), store).expect("the broker's store");
        made
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// For configurations.
    pub fn name(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("a file that openssl made")
    }

    fn authority(&self, name: &str) {
        let (key, certificate, subject) = (format!("{name}.key"), format!("{name}.pem"), format!("/CN={name}"));
        let request = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", &subject];
        openssl(&self.folder, &[&request[..], &["-keyout", &key, "-out", &certificate]].concat());
    }

    fn signed(&self, name: &str, subject: &str, password: Option<&str>) {
        let file = |ending: &str| format!("{name}.{ending}");
        let (key, asked, signed, subject) = (file("key"), file("csr"), file("pem"), format!("/CN={subject}"));
        let password = password.map(|password| format!("pass:{password}"));
        let protection = password.as_ref().map_or(vec!["-nodes"], |password| vec!["-passout", password]);
        let request = ["req", "-newkey", "rsa:2048", "-subj", &subject, "-keyout", &key, "-out", &asked];
        openssl(&self.folder, &[&request[..], &protection].concat());
        fs::write(self.path("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n").expect("names");
        let sign = ["x509", "-req", "-in", &asked, "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"];
        openssl(&self.folder, &[&sign[..], &["-days", "2", "-extfile", "names", "-out", &signed]].concat());
    }
}

fn openssl(folder: &Path, arguments: &[&str]) {
    let ran = Command::new("openssl").args(arguments).current_dir(folder).stdin(Stdio::null()).output();
    let ran = ran.expect("openssl starts; scripts/setup.sh kafka installs it");
    assert!(ran.status.success(), "openssl {arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
}
