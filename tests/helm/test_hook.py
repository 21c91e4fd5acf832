"""The `helm test` hook and the notes."""

import json

import pytest

import chart

every_set = pytest.mark.parametrize("name", chart.VALUE_SETS)


@every_set
def test_helm_test_hook_is_deleted_after_success(name):
    pod = chart.only(chart.rendered(name), "Pod", "-test")
    annotations = pod["metadata"]["annotations"]
    assert annotations["helm.sh/hook"] == "test"
    assert annotations["helm.sh/hook-delete-policy"] == "before-hook-creation,hook-succeeded"
    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["spec"]["containers"][0]["image"] == chart.container(chart.rendered(name))["image"]


def command_of(values):
    return chart.only(chart.render(values), "Pod", "-test")["spec"]["containers"][0]["command"]


def test_helm_test_uses_the_first_stream_by_default():
    config = {"streams": {"b": {"event": {"item": "ip"}}, "a": {"event": {"item": "ip"}}}}
    url = f"--url=http://{chart.RELEASE}-ebb.{chart.NAMESPACE}.svc:8080"
    event = {"ip": "192.0.2.1", "ad": "x", "ts": 1794798515385}
    first = command_of({"config": config, "test": {"event": event}})
    assert first[:-1] == ["ebb", "ask", url, "--json", "decide", "a"] and json.loads(first[-1]) == event
    assert command_of({"config": config, "test": {"stream": "b"}})[-2] == "b"


def test_no_helm_test_without_the_credentials_for_it():
    for secrets in [{"apiTokens": {"existingSecret": "t"}}, {"httpTls": {"existingSecret": "t", "clientCaKey": "ca.crt"}}]:
        assert "Pod" not in chart.kinds(chart.render({"secrets": secrets}))


def notes(values):
    printed = chart.helm("install", chart.RELEASE, chart.CHART, "--namespace", chart.NAMESPACE, "--dry-run=client", values=values)
    return printed.split("\nNOTES:\n")[1]


@every_set
def test_notes_name_the_created_objects(name):
    text = notes(chart.value_set(name))
    created = chart.only(chart.rendered(name), "StatefulSet")["metadata"]["name"]
    assert f"rollout status statefulset/{created}\n" in text
    assert ("reading topics" in text) == name.startswith(("kafka", "autoscaled"))
    assert ("this is the starter configuration" in text) == (not chart.value_set(name).get("config"))
    assert ("persistence.enabled is false" in text) == (name == "ephemeral")
    assert f"test {chart.RELEASE} --logs" in text


def test_notes_omit_a_helm_test_that_does_not_exist():
    assert "--logs" not in notes({"secrets": {"apiTokens": {"existingSecret": "t"}}})
