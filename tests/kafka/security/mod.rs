//! Listeners that let in only whom they know. Everybody who shows the right thing works end to end; everybody else is told
//! why within ten seconds, stays unready, and works as soon as it is right again.
//!
//! The rules that the instance is given are those of docs/kafka-security.md, and no more.

mod certificates;
mod issuer;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::broker::{free_ports, tools};
use crate::check::check;
use crate::feed::{Feed, FeedSpec};
use crate::instance::Instance;
use crate::skip_without_own_kafka;
use crate::stage::{GROUP, INPUT, Stage, StageSpec, VERDICTS, output};
use crate::support::{Ebb, free_address};
use certificates::{Certificates, KEY_PASSWORD};
use issuer::Issuer;

/// Whoever is not let in hears why within this.
const TOLD_WITHIN: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(60);
/// How long it is watched that nothing became ready meanwhile.
const WATCHED: Duration = Duration::from_secs(2);
const RECORDS: u64 = 2_000;
const PASSWORD: &str = "of the user";

/// A broker that asks who is there, and what one needs to answer.
struct Guarded {
    stage: Stage,
    certificates: Certificates,
    sasl_port: u16,
    mutual_port: u16,
}

impl Guarded {
    fn start(name: &'static str) -> Self {
        let certificates = Certificates::make(tools::root().join(name).join("certificates"));
        let ports = free_ports(2);
        let properties = broker_properties(&certificates, ports[0], ports[1]);
        let stage = Stage::new(&StageSpec { partitions: 2, properties, ..StageSpec::new(name) });
        Self { stage, certificates, sasl_port: ports[0], mutual_port: ports[1] }
    }

    /// A file that holds a secret, and nothing else.
    fn secret(&self, name: &str, text: &str) -> String {
        let path = self.stage.file(name);
        fs::write(&path, format!("{text}\n")).expect("a secret");
        path.display().to_string()
    }

    fn access(&self, task: &Value) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kafka/security/access.py");
        let mut python = Command::new(tools::root().join("checker/bin/python"));
        python.arg("-B").arg(script).arg(self.stage.cluster.brokers()).stdin(Stdio::piped());
        let mut running = python.spawn().expect("python starts");
        let mut task_pipe = running.stdin.take().expect("a pipe");
        task_pipe.write_all(task.to_string().as_bytes()).expect("a task");
        drop(task_pipe);
        assert!(running.wait().expect("python ends").success(), "{task} was refused");
    }

    /// An instance that believes `ca` and shows what `properties` say, on the listener that asks for passwords or tokens.
    fn with_sasl(&self, name: &str, ca: &str, properties: &str) -> Guest {
        let ca = self.certificates.name(ca);
        let properties = format!("security.protocol: SASL_SSL, ssl.ca.location: {ca}, {properties}");
        self.guest(name, self.sasl_port, &properties)
    }

    fn with_scram(&self, name: &str, user: &str, password: &str) -> Guest {
        let password = self.secret(&format!("{name}.password"), password);
        let properties =
            format!("sasl.mechanism: SCRAM-SHA-512, sasl.username: {user}, sasl.password: {{file: {password}}}");
        self.with_sasl(name, "ca.pem", &properties)
    }

    fn guest(&self, name: &str, port: u16, properties: &str) -> Guest {
        let instance = Instance::new(&self.stage, name, &format!("  properties: {{{properties}}}"));
        let mut guest = Guest { instance, brokers: format!("localhost:{port}"), begun: Instant::now() };
        guest.start();
        guest
    }

    /// Works off what is new in the topic, then leaves.
    fn work_off(&self, mut guest: Guest, seed: u64) {
        Feed::start(&self.stage, FeedSpec { seed, ..FeedSpec::new(RECORDS) }).finish();
        let admin = self.stage.cluster.admin();
        let ends: Vec<_> = (0..2).map(|partition| Some(admin.watermarks(INPUT, partition).1)).collect();
        let begun = Instant::now();
        while admin.committed(GROUP, INPUT) != ends {
            assert!(begun.elapsed() < PATIENCE, "{:?} of {ends:?}", admin.committed(GROUP, INPUT));
            thread::sleep(Duration::from_millis(50));
        }
        assert!(guest.instance.probe("/readyz"), "not ready");
        println!("{}: let in, {RECORDS} records worked off after {:?}", guest.instance.name, guest.begun.elapsed());
        assert!(guest.instance.terminate(PATIENCE), "SIGTERM was not obeyed");
    }
}

/// An instance that asks to be let in.
struct Guest {
    instance: Instance,
    brokers: String,
    begun: Instant,
}

impl Guest {
    fn start(&mut self) {
        self.begun = Instant::now();
        self.instance.start(&[("EBB_KAFKA__BROKERS", &self.brokers)]);
    }

    /// Alive, not ready, and saying `why`; after that still not ready.
    #[track_caller]
    fn is_told(&mut self, why: &str) {
        let told = loop {
            let asked = self.instance.ask("/readyz");
            assert_ne!(asked.as_ref().map(|(status, _)| *status), Some(200), "it was let in");
            match asked {
                Some((503, body)) if body.contains(why) => break body,
                other => assert!(self.begun.elapsed() < TOLD_WITHIN, "no word of {why:?}: {other:?}"),
            }
            thread::sleep(Duration::from_millis(50));
        };
        println!("{}: told after {:?}: {told}", self.instance.name, self.begun.elapsed());
        assert!(self.instance.log_text().contains(why), "the log does not say {why:?}");
        let watched = Instant::now();
        while watched.elapsed() < WATCHED {
            assert!(!self.instance.probe("/readyz") && self.instance.probe("/livez"), "not as before");
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Never ready, and ended by itself with `why` as its last word.
    #[track_caller]
    fn ends_with(&mut self, why: &str) {
        let begun = Instant::now();
        while self.instance.is_running() {
            assert!(!self.instance.probe("/readyz"), "it was let in");
            assert!(begun.elapsed() < TOLD_WITHIN, "still running, without a word of {why:?}");
            thread::sleep(Duration::from_millis(50));
        }
        let status = self.instance.wait_end(Duration::ZERO).expect("it has ended");
        let log = self.instance.log_text();
        let last = log.lines().last().unwrap_or_default();
        println!("{}: ended after {:?}: {last}", self.instance.name, begun.elapsed());
        assert!(status.code() == Some(1) && last.contains(why), "{status}: {last}");
    }

    #[track_caller]
    fn becomes_ready(&mut self) {
        let begun = Instant::now();
        while !self.instance.probe("/readyz") {
            assert!(begun.elapsed() < PATIENCE, "not ready: {:?}", self.instance.ask("/readyz"));
            thread::sleep(Duration::from_millis(50));
        }
        println!("{}: ready {:?} after it was right", self.instance.name, begun.elapsed());
    }
}

fn broker_properties(certificates: &Certificates, sasl_port: u16, mutual_port: u16) -> Vec<(&'static str, String)> {
    let guarded = format!("SASL://localhost:{sasl_port},MUTUAL://localhost:{mutual_port}");
    let plain = "PLAINTEXT://127.0.0.1:{port},INTERNAL://127.0.0.1:{internal_port}";
    let modules = "org.apache.kafka.common.security";
    vec![
        ("listeners", format!("{plain},CONTROLLER://127.0.0.1:{{controller_port}},{guarded}")),
        ("advertised.listeners", format!("{plain},{guarded}")),
        (
            "listener.security.protocol.map",
            "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_SSL,MUTUAL:SSL".into(),
        ),
        ("ssl.keystore.type", "PEM".into()),
        ("ssl.keystore.location", certificates.name("broker.store.pem")),
        ("ssl.truststore.type", "PEM".into()),
        ("ssl.truststore.location", certificates.name("ca.pem")),
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
        // Only the test itself and the brokers come by the listeners that ask nothing.
        ("super.users", "User:ANONYMOUS".into()),
    ]
}

fn topic_rules(user: &str) -> Vec<Value> {
    let outputs = VERDICTS.iter().map(|verdict| json!([user, "topic", output(verdict), "write"]));
    outputs.chain([json!([user, "topic", INPUT, "read"])]).collect()
}

fn group_rule(user: &str) -> Value {
    json!([user, "group", GROUP, "read"])
}

fn transaction_rule(user: &str) -> Value {
    json!([user, "transactional_id", format!("{GROUP}-*"), "write"])
}

#[test]
fn whoever_shows_the_right_thing_is_let_in_and_works_off_everything() {
    skip_without_own_kafka!();
    let guarded = Guarded::start("security-right");
    let rules = [topic_rules("ebb"), vec![group_rule("ebb"), transaction_rule("ebb")]].concat();
    guarded.access(&json!({"passwords": {"ebb": PASSWORD}, "allow": rules}));
    guarded.work_off(guarded.with_scram("scram", "ebb", PASSWORD), 1);

    let password = guarded.secret("plain.password", PASSWORD);
    let plain = format!("sasl.mechanism: PLAIN, sasl.username: ebb, sasl.password: {{file: {password}}}");
    guarded.work_off(guarded.with_sasl("plain", "ca.pem", &plain), 2);

    let (issuer, secret) = (Issuer::listen(), guarded.secret("client.secret", issuer::SECRET));
    let bearer = format!(
        "sasl.mechanism: OAUTHBEARER, sasl.oauthbearer.method: oidc, sasl.oauthbearer.client.id: {}, \
         sasl.oauthbearer.client.secret: {{file: {secret}}}, sasl.oauthbearer.token.endpoint.url: \"{}\"",
        issuer::CLIENT,
        issuer.url
    );
    guarded.work_off(guarded.with_sasl("bearer", "ca.pem", &bearer), 3);
    assert!(issuer.issued() > 0, "let in without a token");

    let (ca, certificate) = (guarded.certificates.name("ca.pem"), guarded.certificates.name("client.pem"));
    let (key, key_password) = (guarded.certificates.name("client.key"), guarded.secret("key.password", KEY_PASSWORD));
    let mutual = format!(
        "security.protocol: SSL, ssl.ca.location: {ca}, ssl.certificate.location: {certificate}, \
         ssl.key.location: {key}, ssl.key.password: {{file: {key_password}}}"
    );
    guarded.work_off(guarded.guest("mutual", guarded.mutual_port, &mutual), 4);
    check(&guarded.stage).assert_clean(4 * RECORDS);
}

#[test]
fn whoever_is_not_let_in_is_told_why_and_works_once_it_is_right() {
    skip_without_own_kafka!();
    let guarded = Guarded::start("security-wrong");
    let rules = [topic_rules("ebb"), vec![group_rule("ebb"), transaction_rule("ebb")]].concat();
    let users = json!({"ebb": PASSWORD, "newcomer": PASSWORD});
    guarded.access(&json!({"passwords": users, "allow": rules}));

    let mut mistyped = guarded.with_scram("password", "ebb", "mistyped");
    mistyped.is_told("Authentication failed");
    guarded.access(&json!({"passwords": {"ebb": "mistyped"}}));
    mistyped.becomes_ready();
    guarded.access(&json!({"passwords": {"ebb": PASSWORD}}));
    assert!(mistyped.instance.terminate(PATIENCE), "SIGTERM was not obeyed");

    let password = guarded.secret("ebb.password", PASSWORD);
    let scram = format!("sasl.mechanism: SCRAM-SHA-512, sasl.username: ebb, sasl.password: {{file: {password}}}");
    let mut deceived = guarded.with_sasl("authority", "stranger.pem", &scram);
    deceived.is_told("certificate verify failed");
    drop(deceived);
    guarded.work_off(guarded.with_sasl("authority", "ca.pem", &scram), 5);

    let mut newcomer = guarded.with_scram("rules", "newcomer", PASSWORD);
    newcomer.is_told("may not see clicks");
    guarded.access(&json!({"allow": topic_rules("newcomer")}));
    newcomer.ends_with("Group authorization failed");
    guarded.access(&json!({"allow": [group_rule("newcomer")]}));
    newcomer.start();
    newcomer.ends_with("Transactional Id authorization failed");
    guarded.access(&json!({"allow": [transaction_rule("newcomer")]}));
    newcomer.start();
    newcomer.becomes_ready();
    guarded.work_off(newcomer, 6);
    check(&guarded.stage).assert_clean(2 * RECORDS);
}

#[test]
fn an_instance_that_reaches_nobody_says_so_and_still_obeys() {
    let folder = tempfile::tempdir().expect("a folder");
    let (config, nobody) = (folder.path().join("ebb.yaml"), free_ports(1)[0]);
    let text = format!(
        "data_dir: {}\nkafka: {{brokers: \"127.0.0.1:{nobody}\"}}\nstreams: {{clicks: {{event: {{item: [ip, ad]}}}}}}\n",
        folder.path().join("data").display()
    );
    fs::write(&config, text).expect("a configuration");
    let mut ebb = Ebb::start(&config, free_address(), &[]);
    let begun = Instant::now();
    loop {
        match ebb.get("/readyz") {
            Some((503, said)) if said.contains("Connection refused") => break,
            other => assert!(begun.elapsed() < TOLD_WITHIN, "not told: {other:?}"),
        }
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(ebb.get("/livez").map(|(status, _)| status), Some(200));
    let (status, told) = ebb.post("/v1/streams/clicks/decide", r#"{"event":{"ip":1,"ad":2}}"#).expect("an answer");
    assert_eq!((status, &told["type"]), (503, &json!("/problems/not-ready")), "{told}");
    let sent = Command::new("kill").args(["-TERM", &ebb.child.id().to_string()]).status();
    assert!(sent.is_ok_and(|sent| sent.success()), "SIGTERM");
    assert!(ebb.child.wait().is_ok_and(|ended| ended.success()), "SIGTERM was not obeyed");
}
