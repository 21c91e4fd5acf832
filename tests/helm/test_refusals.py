"""Bad values are refused, each for its own reason."""

from pathlib import Path

import pytest
import yaml

import chart

REFUSED = yaml.safe_load((Path(__file__).parent / "refused.yaml").read_text())


@pytest.mark.parametrize("name", REFUSED["schema"])
def test_the_schema_refuses(name):
    case = REFUSED["schema"][name]
    with pytest.raises(chart.Refused) as refusal:
        chart.render(case["values"])
    told = str(refusal.value)
    assert "don't meet the specifications of the schema" in told, told
    assert case["says"] in told.split("specifications of the schema")[1], told


@pytest.mark.parametrize("name", REFUSED["rules"])
def test_the_chart_refuses(name):
    case = REFUSED["rules"][name]
    with pytest.raises(chart.Refused) as refusal:
        chart.render(case["values"])
    told = str(refusal.value)
    assert "specifications of the schema" not in told, told
    assert case["says"] in told, told


def test_all_refusals_are_told_at_once():
    values = {"replicas": 2, "config": {"data_dir": "/d", "http": {"drain": "2m"}, "streams": {"s": {}}}}
    with pytest.raises(chart.Refused) as refusal:
        chart.render(values)
    for word in ["replicas: ", "config.data_dir: ", "terminationGracePeriodSeconds: "]:
        assert word in str(refusal.value)
