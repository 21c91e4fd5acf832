"""Who reaches the service, and whom it reaches."""

import pytest

import chart

every_set = pytest.mark.parametrize("name", chart.VALUE_SETS)


@every_set
def test_clients_reach_one_port_only(name):
    objects = chart.rendered(name)
    stateful = chart.only(objects, "StatefulSet")["metadata"]["name"]
    client = next(o for o in objects if o["kind"] == "Service" and o["metadata"]["name"] == stateful)
    assert [port["targetPort"] for port in client["spec"]["ports"]] == ["http"]


def test_the_network_policy_denies_what_it_does_not_name():
    spec = chart.only(chart.rendered("kafka-scram"), "NetworkPolicy")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    # No clients and no scrapers were named: only the release's own pods are left.
    assert [rule["ports"][0]["port"] for rule in spec["ingress"]] == ["http"]
    own = [peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] for peer in spec["ingress"][0]["from"]]
    assert own == ["service", "test"]
    dns, own, brokers = spec["egress"]
    assert {port["port"] for port in dns["ports"]} == {53} and dns["to"]
    assert own["to"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "service"
    assert [port["port"] for port in brokers["ports"]] == [9093, 9193]
    assert brokers["to"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kafka"}}}]


def test_no_rule_of_a_policy_is_open_by_being_empty():
    for name in chart.VALUE_SETS:
        for o in chart.rendered(name):
            if o["kind"] == "NetworkPolicy":
                assert all(rule.get("from") for rule in o["spec"]["ingress"]), name
                assert all(rule.get("ports") for rule in o["spec"]["egress"]), name


def test_the_brokers_ports_come_from_the_configuration():
    egress = chart.only(chart.rendered("kafka"), "NetworkPolicy")["spec"]["egress"]
    assert [port["port"] for port in egress[-1]["ports"]] == [9092, 9094]
    assert len(chart.only(chart.rendered("starter"), "NetworkPolicy")["spec"]["egress"]) == 2


@pytest.mark.parametrize(
    "name, opened",
    [("starter", "anywhere"), ("kafka", "anywhere"), ("public", None), ("ephemeral", None)],
)
def test_only_a_network_policy_lets_callers_go_without_tokens(name, opened):
    told = chart.variables(chart.rendered(name)).get("EBB_HTTP__WITHOUT_TOKENS", {})
    assert told.get("value") == opened


@pytest.mark.parametrize("known", [{"apiTokens": {"existingSecret": "t"}}, {"httpTls": {"existingSecret": "t", "clientCaKey": "ca.crt"}}])
def test_nobody_goes_without_where_callers_can_be_known(known):
    assert "EBB_HTTP__WITHOUT_TOKENS" not in chart.variables(chart.render({"secrets": known}))
