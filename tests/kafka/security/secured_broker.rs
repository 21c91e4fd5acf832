//! A broker with authentication, TLS and ACLs, and instances that connect to it.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::certificates::Certificates;
use crate::broker::{free_ports, tools};
use crate::feed::{Feed, FeedSpec};
use crate::instance::Instance;
use crate::testbed::{GROUP, INPUT, TestBed, TestBedSpec, VERDICTS, output_topic};
use crate::wait::wait_until;

/// The promised time until a rejected instance reports the cause.
pub const REPORT_TIMEOUT: Duration = Duration::from_secs(10);
pub const TIMEOUT: Duration = Duration::from_secs(60);
/// How long a rejected instance must stay unready after its report.
const UNREADY_PERIOD: Duration = Duration::from_secs(2);
/// Records per [`SecuredBroker::process_records`].
pub const RECORDS: u64 = 2_000;
pub const PASSWORD: &str = "of the user";

/// A broker with a SASL_SSL listener and a mutual TLS listener.
pub struct SecuredBroker {
    pub testbed: TestBed,
    pub certificates: Certificates,
    sasl_port: u16,
    pub mutual_tls_port: u16,
}

impl SecuredBroker {
    pub fn start(name: &'static str) -> Self {
        let certificates = Certificates::create(tools::root().join(name).join("certificates"));
        let ports = free_ports(2);
        let properties = broker_properties(&certificates, ports[0], ports[1]);
        let testbed = TestBed::new(&TestBedSpec { partitions: 2, properties, ..TestBedSpec::new(name) });
        Self { testbed, certificates, sasl_port: ports[0], mutual_tls_port: ports[1] }
    }

    /// Writes a secret file and returns its path.
    pub fn write_secret(&self, name: &str, text: &str) -> String {
        let path = self.testbed.file(name);
        fs::write(&path, format!("{text}\n")).expect("write the secret");
        path.display().to_string()
    }

    /// Creates users and ACLs; see `access.py` for the format.
    pub fn configure_access(&self, task: &Value) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kafka/security/access.py");
        let mut python = tools::python();
        python.arg(script).arg(self.testbed.cluster.brokers()).stdin(Stdio::piped());
        let mut process = python.spawn().expect("start python");
        let mut stdin = process.stdin.take().expect("a pipe");
        stdin.write_all(task.to_string().as_bytes()).expect("send the task");
        drop(stdin);
        assert!(process.wait().expect("wait for python").success(), "access.py failed for {task}");
    }

    /// Starts an instance on the SASL_SSL listener that trusts the certificate authority `ca`.
    pub fn connect_with_sasl(&self, name: &str, ca: &str, properties: &str) -> SecuredInstance {
        let ca = self.certificates.path_text(ca);
        let properties = format!("security.protocol: SASL_SSL, ssl.ca.location: {ca}, {properties}");
        self.connect(name, self.sasl_port, &properties)
    }

    pub fn connect_with_scram(&self, name: &str, user: &str, password: &str) -> SecuredInstance {
        let password = self.write_secret(&format!("{name}.password"), password);
        let properties =
            format!("sasl.mechanism: SCRAM-SHA-512, sasl.username: {user}, sasl.password: {{file: {password}}}");
        self.connect_with_sasl(name, "ca.pem", &properties)
    }

    pub fn connect(&self, name: &str, port: u16, properties: &str) -> SecuredInstance {
        let instance = Instance::new(&self.testbed, name, &format!("  properties: {{{properties}}}"));
        let mut connected = SecuredInstance { instance, brokers: format!("localhost:{port}"), begun: Instant::now() };
        connected.start();
        connected
    }

    /// Produces [`RECORDS`], waits until the instance has committed them and stops it.
    pub fn process_records(&self, mut connected: SecuredInstance, seed: u64) {
        Feed::start(&self.testbed, FeedSpec { seed, ..FeedSpec::new(RECORDS) }).finish();
        let admin = self.testbed.cluster.admin();
        let ends: Vec<_> = (0..2).map(|partition| Some(admin.watermarks(INPUT, partition).1)).collect();
        wait_until("all records are committed", TIMEOUT, || admin.committed(GROUP, INPUT) == ends);
        let instance = &mut connected.instance;
        assert!(instance.is_ready(), "not ready");
        println!("{}: {RECORDS} records processed after {:?}", instance.name, connected.begun.elapsed());
        assert!(instance.terminate(TIMEOUT), "the service did not stop on SIGTERM");
    }
}

/// An instance with its own credentials.
pub struct SecuredInstance {
    pub instance: Instance,
    brokers: String,
    begun: Instant,
}

impl SecuredInstance {
    pub fn start(&mut self) {
        self.begun = Instant::now();
        self.instance.start(&[("EBB_KAFKA__BROKERS", &self.brokers)]);
    }

    /// The instance reports the cause in /readyz and log within [`REPORT_TIMEOUT`], and stays alive and unready.
    #[track_caller]
    pub fn assert_rejected(&mut self, cause: &str) {
        let report = loop {
            let response = self.instance.get("/readyz");
            assert_ne!(response.as_ref().map(|(status, _)| *status), Some(200), "the instance was not rejected");
            match response {
                Some((503, body)) if body.contains(cause) => break body,
                other => assert!(self.begun.elapsed() < REPORT_TIMEOUT, "{cause:?} is not reported: {other:?}"),
            }
            thread::sleep(Duration::from_millis(50));
        };
        println!("{}: rejected after {:?}: {report}", self.instance.name, self.begun.elapsed());
        assert!(self.instance.log_count(cause) > 0, "{cause:?} is not logged");
        let reported = Instant::now();
        while reported.elapsed() < UNREADY_PERIOD {
            assert!(!self.instance.is_ready() && self.instance.probe("/livez"), "ready, or not alive");
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// The instance never becomes ready and exits with the cause in its last log line.
    #[track_caller]
    pub fn assert_exits(&mut self, cause: &str) {
        let begun = Instant::now();
        while self.instance.is_running() {
            assert!(!self.instance.is_ready(), "the instance was not rejected");
            assert!(begun.elapsed() < REPORT_TIMEOUT, "still running, {cause:?} is not reported");
            thread::sleep(Duration::from_millis(50));
        }
        let status = self.instance.wait_for_exit(Duration::ZERO).expect("an exit status");
        let log = self.instance.log_text();
        let last_line = log.lines().last().unwrap_or_default();
        println!("{}: exited after {:?}: {last_line}", self.instance.name, begun.elapsed());
        assert!(status.code() == Some(1) && last_line.contains(cause), "{status}: {last_line}");
    }

    #[track_caller]
    pub fn wait_until_ready(&mut self) {
        let begun = Instant::now();
        wait_until("the instance is ready", TIMEOUT, || self.instance.is_ready());
        println!("{}: ready {:?} after access was granted", self.instance.name, begun.elapsed());
    }
}

fn broker_properties(certificates: &Certificates, sasl_port: u16, mutual_port: u16) -> Vec<(&'static str, String)> {
    let secured = format!("SASL://localhost:{sasl_port},MUTUAL://localhost:{mutual_port}");
    let plain = "PLAINTEXT://127.0.0.1:{port},INTERNAL://127.0.0.1:{internal_port}";
    let modules = "org.apache.kafka.common.security";
    vec![
        ("listeners", format!("{plain},CONTROLLER://127.0.0.1:{{controller_port}},{secured}")),
        ("advertised.listeners", format!("{plain},{secured}")),
        (
            "listener.security.protocol.map",
            "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_SSL,MUTUAL:SSL".into(),
        ),
        ("ssl.keystore.type", "PEM".into()),
        ("ssl.keystore.location", certificates.path_text("broker.store.pem")),
        ("ssl.truststore.type", "PEM".into()),
        ("ssl.truststore.location", certificates.path_text("ca.pem")),
        ("listener.name.mutual.ssl.client.auth", "required".into()),
        ("listener.name.mutual.ssl.principal.mapping.rules", "RULE:^CN=(.*)$/$1/".into()),
        ("sasl.enabled.mechanisms", "SCRAM-SHA-512,PLAIN,OAUTHBEARER".into()),
        ("listener.name.sasl.scram-sha-512.sasl.jaas.config", format!("{modules}.scram.ScramLoginModule required;")),
        (
            "listener.name.sasl.plain.sasl.jaas.config",
            format!("{modules}.plain.PlainLoginModule required user_ebb=\"{PASSWORD}\";"),
        ),
        (
            "listener.name.sasl.oauthbearer.sasl.jaas.config",
            format!("{modules}.oauthbearer.OAuthBearerLoginModule required;"),
        ),
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer".into()),
        // The listeners without authentication are used by the test itself and between brokers.
        ("super.users", "User:ANONYMOUS".into()),
    ]
}

pub fn topic_acls(user: &str) -> Vec<Value> {
    let outputs = VERDICTS.iter().map(|verdict| json!([user, "topic", output_topic(verdict), "write"]));
    outputs.chain([json!([user, "topic", INPUT, "read"])]).collect()
}

pub fn group_acl(user: &str) -> Value {
    json!([user, "group", GROUP, "read"])
}

pub fn transaction_acl(user: &str) -> Value {
    json!([user, "transactional_id", format!("{GROUP}-*"), "write"])
}

/// The ACLs that docs/kafka-security.md requires, and no more.
pub fn all_acls(user: &str) -> Vec<Value> {
    [topic_acls(user), vec![group_acl(user), transaction_acl(user)]].concat()
}
