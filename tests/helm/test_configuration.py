"""The configuration is copied unchanged, and a change of it replaces the pods."""

import hashlib

import pytest
import yaml

import chart

every_set = pytest.mark.parametrize("name", chart.VALUE_SETS)


@every_set
def test_configuration_is_copied_unchanged(name):
    config = chart.value_set(name).get("config")
    text = chart.config_text(chart.rendered(name))
    if not config:
        assert text == (chart.CHART / "files" / "starter.yaml").read_text()
    elif isinstance(config, str):
        assert text == config
    else:
        assert yaml.safe_load(text) == config


@pytest.mark.parametrize(
    "text",
    [
        "  streams: {a: 1}\n",
        "streams: {a: 1}",
        "\n\nstreams:\n\n  a: 1 \n",
        "# first\n#  second\nstreams: {a: 1}\n# last",
        "streams:\n  a: |\n    tab\there\n\n",
        "streams: {a: '{{ .Values.replicas }}'}\n\n\n",
    ],
)
def test_text_is_copied_byte_for_byte(text):
    assert chart.config_text(chart.render({"config": text})) == text


def test_large_integers_are_not_rendered_as_floats():
    config = {"streams": {"s": {"event": {"item": "ip"}, "dedup": {"items": 123456789012, "rate": 10000000}}}}
    text = chart.config_text(chart.render({"config": config}))
    assert "items: 123456789012\n" in text and "rate: 10000000\n" in text


def test_changed_configuration_replaces_the_pods():
    def checksum(values):
        objects = chart.render(values)
        annotation = chart.only(objects, "StatefulSet")["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
        assert annotation == hashlib.sha256(chart.config_text(objects).encode()).hexdigest()
        return annotation

    config = lambda window: {"config": {"streams": {"s": {"event": {"item": "ip"}, "dedup": {"window": window}}}}}
    assert checksum(config("1h")) != checksum(config("2h"))
    assert checksum(config("1h")) == checksum({**config("1h"), "resources": {"requests": {"cpu": "1"}}})


def test_new_chart_version_alone_does_not_restart_pods():
    labels = chart.only(chart.rendered("starter"), "StatefulSet")["spec"]["template"]["metadata"]["labels"]
    assert "helm.sh/chart" not in labels and "app.kubernetes.io/version" not in labels


def test_instance_is_named_after_its_pod():
    variable = chart.variables(chart.rendered("kafka"))["EBB_KAFKA__INSTANCE"]
    assert variable["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    for name in ["starter", "kafka-oauth"]:
        assert "EBB_KAFKA__INSTANCE" not in chart.variables(chart.rendered(name))
