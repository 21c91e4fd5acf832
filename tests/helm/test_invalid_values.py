"""Invalid values are rejected, each for its own reason."""

from pathlib import Path

import pytest
import yaml

import chart

INVALID = yaml.safe_load((Path(__file__).parent / "invalid_values.yaml").read_text())


def error_of(values):
    with pytest.raises(chart.HelmError) as error:
        chart.render(values)
    return str(error.value)


@pytest.mark.parametrize("name", INVALID["schema"])
def test_schema_rejects(name):
    case = INVALID["schema"][name]
    message = error_of(case["values"])
    assert "don't meet the specifications of the schema" in message, message
    assert case["says"] in message.split("specifications of the schema")[1], message


@pytest.mark.parametrize("name", INVALID["templates"])
def test_templates_reject(name):
    case = INVALID["templates"][name]
    message = error_of(case["values"])
    assert "specifications of the schema" not in message, message
    assert case["says"] in message, message


def test_all_errors_are_reported_at_once():
    message = error_of({"replicas": 2, "config": {"data_dir": "/d", "http": {"drain": "2m"}, "streams": {"s": {}}}})
    for key in ["replicas: ", "config.data_dir: ", "terminationGracePeriodSeconds: "]:
        assert key in message
