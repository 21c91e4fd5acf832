"""The configuration arrives as it was given, and only it decides about new pods."""

import hashlib

import pytest
import yaml

import chart

every_set = pytest.mark.parametrize("name", chart.VALUE_SETS)


@every_set
def test_the_configuration_arrives_as_it_was_given(name):
    given = chart.value_set(name).get("config")
    text = chart.config_text(chart.rendered(name))
    if not given:
        assert text == (chart.CHART / "files" / "starter.yaml").read_text()
    elif isinstance(given, str):
        assert text == given
    else:
        assert yaml.safe_load(text) == given


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
def test_odd_text_arrives_byte_for_byte(text):
    assert chart.config_text(chart.render({"config": text})) == text


def test_large_numbers_stay_whole_numbers():
    config = {"streams": {"s": {"event": {"item": "ip"}, "dedup": {"items": 123456789012, "rate": 10000000}}}}
    text = chart.config_text(chart.render({"config": config}))
    assert "items: 123456789012\n" in text and "rate: 10000000\n" in text


def test_another_configuration_means_another_pod():
    def checksum(values):
        objects = chart.render(values)
        told = chart.only(objects, "StatefulSet")["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
        assert told == hashlib.sha256(chart.config_text(objects).encode()).hexdigest()
        return told

    config = lambda window: {"config": {"streams": {"s": {"event": {"item": "ip"}, "dedup": {"window": window}}}}}
    assert checksum(config("1h")) != checksum(config("2h"))
    assert checksum(config("1h")) == checksum({**config("1h"), "resources": {"requests": {"cpu": "1"}}})


def test_another_chart_version_alone_restarts_nothing():
    labels = chart.only(chart.rendered("starter"), "StatefulSet")["spec"]["template"]["metadata"]["labels"]
    assert "helm.sh/chart" not in labels and "app.kubernetes.io/version" not in labels


def test_the_instance_is_named_after_its_pod():
    named = chart.variables(chart.rendered("kafka"))["EBB_KAFKA__INSTANCE"]
    assert named["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    for unnamed in ["starter", "kafka-oauth"]:
        assert "EBB_KAFKA__INSTANCE" not in chart.variables(chart.rendered(unnamed))
