//! Brokers with authentication and authorization. An instance with valid credentials works end to end; a rejected one
//! reports the cause within ten seconds, stays unready, and works as soon as access is granted.

mod certificates;
mod secured_broker;
mod token_issuer;

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::broker::free_ports;
use crate::skip_without_own_kafka;
use crate::support::{Ebb, free_address};
use crate::wait::wait_until;
use certificates::KEY_PASSWORD;
use secured_broker::{
    PASSWORD, RECORDS, REPORT_TIMEOUT, SecuredBroker, TIMEOUT, all_acls, group_acl, topic_acls, transaction_acl,
};
use token_issuer::TokenIssuer;

#[test]
fn every_authentication_method_works_end_to_end() {
    skip_without_own_kafka!();
    let broker = SecuredBroker::start("security-right");
    broker.configure_access(&json!({"passwords": {"ebb": PASSWORD}, "allow": all_acls("ebb")}));
    broker.process_records(broker.connect_with_scram("scram", "ebb", PASSWORD), 1);

    let password = broker.write_secret("plain.password", PASSWORD);
    let plain = format!("sasl.mechanism: PLAIN, sasl.username: ebb, sasl.password: {{file: {password}}}");
    broker.process_records(broker.connect_with_sasl("plain", "ca.pem", &plain), 2);

    let (issuer, secret) = (TokenIssuer::listen(), broker.write_secret("client.secret", token_issuer::SECRET));
    let bearer = format!(
        "sasl.mechanism: OAUTHBEARER, sasl.oauthbearer.method: oidc, sasl.oauthbearer.client.id: {}, \
         sasl.oauthbearer.client.secret: {{file: {secret}}}, sasl.oauthbearer.token.endpoint.url: \"{}\"",
        token_issuer::CLIENT,
        issuer.url
    );
    broker.process_records(broker.connect_with_sasl("bearer", "ca.pem", &bearer), 3);
    assert!(issuer.issued() > 0, "authenticated without a token");

    let (ca, certificate) = (broker.certificates.path_text("ca.pem"), broker.certificates.path_text("client.pem"));
    let key = broker.certificates.path_text("client.key");
    let key_password = broker.write_secret("key.password", KEY_PASSWORD);
    let mutual_tls = format!(
        "security.protocol: SSL, ssl.ca.location: {ca}, ssl.certificate.location: {certificate}, \
         ssl.key.location: {key}, ssl.key.password: {{file: {key_password}}}"
    );
    broker.process_records(broker.connect("mutual", broker.mutual_tls_port, &mutual_tls), 4);
    broker.testbed.check().assert_clean(4 * RECORDS);
}

#[test]
fn rejected_instance_reports_the_cause_and_works_once_access_is_granted() {
    skip_without_own_kafka!();
    let broker = SecuredBroker::start("security-wrong");
    let passwords = json!({"ebb": PASSWORD, "newcomer": PASSWORD});
    broker.configure_access(&json!({"passwords": passwords, "allow": all_acls("ebb")}));
    wrong_password_is_rejected(&broker);
    untrusted_certificate_is_rejected(&broker);
    missing_acls_are_rejected(&broker);
    broker.testbed.check().assert_clean(2 * RECORDS);
}

fn wrong_password_is_rejected(broker: &SecuredBroker) {
    let mut instance = broker.connect_with_scram("password", "ebb", "mistyped");
    instance.assert_rejected("Authentication failed");
    broker.configure_access(&json!({"passwords": {"ebb": "mistyped"}}));
    instance.wait_until_ready();
    broker.configure_access(&json!({"passwords": {"ebb": PASSWORD}}));
    assert!(instance.instance.terminate(TIMEOUT), "the service did not stop on SIGTERM");
}

fn untrusted_certificate_is_rejected(broker: &SecuredBroker) {
    let password = broker.write_secret("ebb.password", PASSWORD);
    let scram = format!("sasl.mechanism: SCRAM-SHA-512, sasl.username: ebb, sasl.password: {{file: {password}}}");
    let mut instance = broker.connect_with_sasl("authority", "untrusted.pem", &scram);
    instance.assert_rejected("certificate verify failed");
    drop(instance);
    broker.process_records(broker.connect_with_sasl("authority", "ca.pem", &scram), 5);
}

fn missing_acls_are_rejected(broker: &SecuredBroker) {
    let mut instance = broker.connect_with_scram("rules", "newcomer", PASSWORD);
    instance.assert_rejected("may not see clicks");
    broker.configure_access(&json!({"allow": topic_acls("newcomer")}));
    instance.assert_exits("Group authorization failed");
    broker.configure_access(&json!({"allow": [group_acl("newcomer")]}));
    instance.start();
    instance.assert_exits("Transactional Id authorization failed");
    broker.configure_access(&json!({"allow": [transaction_acl("newcomer")]}));
    instance.start();
    instance.wait_until_ready();
    broker.process_records(instance, 6);
}

#[test]
fn unreachable_broker_is_reported_and_sigterm_still_stops_the_service() {
    let directory = tempfile::tempdir().expect("create a directory");
    let (config, unused_port) = (directory.path().join("ebb.yaml"), free_ports(1)[0]);
    let text = format!(
        "data_dir: {}\nkafka: {{brokers: \"127.0.0.1:{unused_port}\"}}\nstreams: {{clicks: {{event: {{item: [ip, ad]}}}}}}\n",
        directory.path().join("data").display()
    );
    fs::write(&config, text).expect("write the configuration");
    let mut ebb = Ebb::start(&config, free_address(), &[]);
    wait_until("the refused connection is reported", REPORT_TIMEOUT, || {
        ebb.get("/readyz").is_some_and(|(status, body)| status == 503 && body.contains("Connection refused"))
    });
    assert_eq!(ebb.get("/livez").map(|(status, _)| status), Some(200));
    let response = ebb.post("/v1/streams/clicks/decide", r#"{"event":{"ip":1,"ad":2}}"#);
    let (status, problem) = response.expect("receive a response");
    assert_eq!((status, &problem["type"]), (503, &json!("/problems/not-ready")), "{problem}");
    let sent = Command::new("kill").args(["-TERM", &ebb.child.id().to_string()]).status();
    assert!(sent.is_ok_and(|sent| sent.success()), "sending SIGTERM failed");
    assert!(ebb.child.wait().is_ok_and(|status| status.success()), "the service did not stop on SIGTERM");
}
