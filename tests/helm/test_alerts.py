"""Checks the alerts of the rendered PrometheusRule with promtool."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

import chart

TESTS = Path(__file__).parent / "alerts.yaml"
VALUES = {"prometheusRule": {"enabled": True}}


def promtool(*arguments, cwd):
    done = subprocess.run([chart.TOOLS / "promtool", *arguments], cwd=cwd, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def groups(values):
    return {"groups": chart.only(chart.render(values), "PrometheusRule")["spec"]["groups"]}


@pytest.fixture
def folder(tmp_path):
    rules = groups(VALUES)
    for rule in rules["groups"][0]["rules"]:
        texts = rule.pop("annotations")
        assert texts["summary"] and texts["description"].endswith("."), rule["alert"]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules))
    (tmp_path / "tests.yaml").write_text(TESTS.read_text())
    return tmp_path


@pytest.mark.parametrize("values", [VALUES, chart.value_set("monitoring")])
def test_rules_are_valid(values, tmp_path):
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(groups(values)))
    status, output = promtool("check", "rules", "--lint=all", "--lint-fatal", "rules.yaml", cwd=tmp_path)
    assert status == 0, output


def test_alerts_fire_as_specified(folder):
    status, output = promtool("test", "rules", "tests.yaml", cwd=folder)
    assert status == 0, output


def test_every_alert_has_a_firing_and_a_silent_case():
    alerts = {rule["alert"] for rule in groups(VALUES)["groups"][0]["rules"]}
    fired, silent = set(), set()
    for case in yaml.safe_load(TESTS.read_text())["tests"]:
        for check in case["alert_rule_test"]:
            (fired if check.get("exp_alerts") else silent).add(check["alertname"])
    assert fired == alerts
    assert silent == alerts


@pytest.mark.parametrize("alert", [rule["alert"] for rule in groups(VALUES)["groups"][0]["rules"]])
def test_unit_tests_notice_an_alert_that_does_not_fire(alert, folder):
    rules = yaml.safe_load((folder / "rules.yaml").read_text())
    for rule in rules["groups"][0]["rules"]:
        if rule["alert"] == alert:
            rule["expr"] = f"({rule['expr']}) and vector(0) > 1"
    (folder / "rules.yaml").write_text(yaml.safe_dump(rules))
    status, output = promtool("test", "rules", "tests.yaml", cwd=folder)
    assert status != 0 and alert in output, output


@pytest.mark.parametrize(
    "limit, value, shown",
    [("lagRecords", 12345678, "> 12345678"), ("rejectedShare", 0.125, "> 0.125"), ("notReadyFor", "7m", "for: 7m")],
)
def test_limits_come_from_the_values(limit, value, shown):
    rules = groups({"prometheusRule": {"enabled": True, "limits": {limit: value}}})["groups"][0]["rules"]
    assert shown in re.sub(r"\s+", " ", yaml.safe_dump(rules, width=1000))
