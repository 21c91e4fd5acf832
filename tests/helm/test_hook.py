"""What people are told, and what `helm test` does."""

import json

import pytest

import chart

every_set = pytest.mark.parametrize("name", chart.VALUE_SETS)


@every_set
def test_the_helm_test_is_a_hook_that_leaves_nothing_behind(name):
    pod = chart.only(chart.rendered(name), "Pod", "-test")
    annotations = pod["metadata"]["annotations"]
    assert annotations["helm.sh/hook"] == "test"
    assert annotations["helm.sh/hook-delete-policy"] == "before-hook-creation,hook-succeeded"
    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["spec"]["containers"][0]["image"] == chart.container(chart.rendered(name))["image"]


def asked(values):
    return chart.only(chart.render(values), "Pod", "-test")["spec"]["containers"][0]["command"]


def test_the_helm_test_asks_the_first_stream_unless_another_is_named():
    config = {"streams": {"b": {"event": {"item": "ip"}}, "a": {"event": {"item": "ip"}}}}
    url = f"--url=http://{chart.RELEASE}-ebb.{chart.NAMESPACE}.svc:8080"
    event = {"ip": "192.0.2.1", "ad": "x", "ts": 1794798515385}
    first = asked({"config": config, "test": {"event": event}})
    assert first[:-1] == ["ebb", "ask", url, "--json", "decide", "a"] and json.loads(first[-1]) == event
    assert asked({"config": config, "test": {"stream": "b"}})[-2] == "b"


def test_there_is_no_helm_test_that_could_not_be_let_in():
    for secrets in [{"apiTokens": {"existingSecret": "t"}}, {"httpTls": {"existingSecret": "t", "clientCaKey": "ca.crt"}}]:
        assert "Pod" not in chart.kinds(chart.render({"secrets": secrets}))


def notes(values):
    printed = chart.helm("install", chart.RELEASE, chart.CHART, "--namespace", chart.NAMESPACE, "--dry-run=client", values=values)
    return printed.split("\nNOTES:\n")[1]


@every_set
def test_the_notes_name_what_was_made(name):
    told = notes(chart.value_set(name))
    made = chart.only(chart.rendered(name), "StatefulSet")["metadata"]["name"]
    assert f"rollout status statefulset/{made}\n" in told
    assert ("reading topics" in told) == name.startswith(("kafka", "autoscaled"))
    assert ("this is the starter configuration" in told) == (not chart.value_set(name).get("config"))
    assert ("persistence.enabled is false" in told) == (name == "ephemeral")
    assert f"test {chart.RELEASE} --logs" in told


def test_the_notes_promise_no_test_that_there_is_not():
    assert "--logs" not in notes({"secrets": {"apiTokens": {"existingSecret": "t"}}})
