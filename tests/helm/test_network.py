"""Network access to and from the service."""

import pytest

import chart

every_set = pytest.mark.parametrize("name", chart.VALUE_SETS)


@every_set
def test_client_service_exposes_only_the_http_port(name):
    objects = chart.rendered(name)
    stateful = chart.only(objects, "StatefulSet")["metadata"]["name"]
    client = next(o for o in objects if o["kind"] == "Service" and o["metadata"]["name"] == stateful)
    assert [port["targetPort"] for port in client["spec"]["ports"]] == ["http"]


def test_network_policy_denies_by_default():
    spec = chart.only(chart.rendered("kafka-scram"), "NetworkPolicy")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    # Without clients and scrapers only pods of the release itself are admitted.
    assert [rule["ports"][0]["port"] for rule in spec["ingress"]] == ["http"]
    own = [peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] for peer in spec["ingress"][0]["from"]]
    assert own == ["service", "test"]
    dns, own, brokers = spec["egress"]
    assert {port["port"] for port in dns["ports"]} == {53} and dns["to"]
    assert own["to"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "service"
    assert [port["port"] for port in brokers["ports"]] == [9093, 9193]
    assert brokers["to"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kafka"}}}]


def test_no_policy_rule_is_open_because_it_is_empty():
    for name in chart.VALUE_SETS:
        for o in chart.rendered(name):
            if o["kind"] == "NetworkPolicy":
                assert all(rule.get("from") for rule in o["spec"]["ingress"]), name
                assert all(rule.get("ports") for rule in o["spec"]["egress"]), name


def test_broker_ports_come_from_the_configuration():
    egress = chart.only(chart.rendered("kafka"), "NetworkPolicy")["spec"]["egress"]
    assert [port["port"] for port in egress[-1]["ports"]] == [9092, 9094]
    assert len(chart.only(chart.rendered("starter"), "NetworkPolicy")["spec"]["egress"]) == 2


@pytest.mark.parametrize(
    "name, without_tokens",
    [("starter", "anywhere"), ("kafka", "anywhere"), ("public", None), ("ephemeral", None)],
)
def test_tokens_are_optional_only_behind_a_network_policy(name, without_tokens):
    variable = chart.variables(chart.rendered(name)).get("EBB_HTTP__WITHOUT_TOKENS", {})
    assert variable.get("value") == without_tokens


@pytest.mark.parametrize("authentication", [{"apiTokens": {"existingSecret": "t"}}, {"httpTls": {"existingSecret": "t", "clientCaKey": "ca.crt"}}])
def test_configured_authentication_is_required(authentication):
    assert "EBB_HTTP__WITHOUT_TOKENS" not in chart.variables(chart.render({"secrets": authentication}))
