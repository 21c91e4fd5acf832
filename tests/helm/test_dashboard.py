"""The dashboard and the alerts use series and labels that the service exports, in valid PromQL."""

import json
import re
import subprocess

import pytest
import yaml

import chart
import sandbox

DASHBOARD = json.loads((chart.CHART / "dashboards" / "ebb.json").read_text())
# Labels added by scraping and by histograms.
COMMON_LABELS = {"namespace", "job", "instance", "pod", "le"}


def dashboard_queries():
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]["query"]
    for annotation in DASHBOARD["annotations"]["list"]:
        yield annotation["name"], annotation["expr"]


def alert_queries():
    rules = chart.only(chart.render({"prometheusRule": {"enabled": True}}), "PrometheusRule")
    return [(rule["alert"], rule["expr"]) for rule in rules["spec"]["groups"][0]["rules"]]


QUERIES = list(dashboard_queries()) + alert_queries()


@pytest.fixture(scope="module")
def exported():
    """The labels of every series that the service exports, by name."""
    printed = subprocess.run([sandbox.BINARY, "metrics", "--json"], check=True, capture_output=True, text=True).stdout
    series = {}
    for metric in json.loads(printed):
        endings = ["_bucket", "_sum", "_count"] if metric["type"] == "histogram" else [""]
        series |= {metric["name"] + ending: set(metric["labels"]) for ending in endings}
    return series


@pytest.mark.parametrize("title, query", QUERIES)
def test_queries_use_exported_series(title, query, exported):
    named = re.findall(r"\bebb_[a-z_]+", query)
    assert named or re.search(r"\bup\b", query), query
    assert set(named) <= set(exported)


@pytest.mark.parametrize("title, query", QUERIES)
def test_queries_use_existing_labels(title, query, exported):
    for name, selector in re.findall(r"\b(ebb_[a-z_]+)\{([^}]*)\}", query):
        assert set(re.findall(r"(\w+)\s*[=!]", selector)) <= exported[name] | COMMON_LABELS, query
    known = COMMON_LABELS.union(*(exported[name] for name in re.findall(r"\bebb_[a-z_]+", query)))
    for grouping in re.findall(r"\bby \(([^)]*)\)", query):
        assert {label.strip() for label in grouping.split(",")} <= known, query


@pytest.mark.parametrize("panel", [p for p in DASHBOARD["panels"] if p["type"] != "row"], ids=lambda p: p["title"])
def test_legends_use_labels_that_remain_after_grouping(panel):
    for target in panel["targets"]:
        shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        grouped = {label.strip() for by in re.findall(r"\bby \(([^)]*)\)", target["expr"]) for label in by.split(",")}
        assert shown <= grouped, target


def test_dashboard_queries_are_valid(tmp_path):
    rules = []
    for index, (_, query) in enumerate(dashboard_queries()):
        if not query.startswith("label_values("):
            query = query.replace("$__rate_interval", "5m").replace("$", "")
            rules.append({"record": f"query:{index}", "expr": query})
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run([chart.TOOLS / "promtool", "check", "rules", tmp_path / "rules.yaml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_series_of_alerts_are_on_the_dashboard():
    series = lambda queries: {name for _, query in queries for name in re.findall(r"\bebb_[a-z_]+", query)}
    assert series(alert_queries()) <= series(dashboard_queries())


def test_panels_do_not_overlap():
    taken = set()
    for panel in DASHBOARD["panels"]:
        grid = panel["gridPos"]
        cells = {(x, y) for x in range(grid["x"], grid["x"] + grid["w"]) for y in range(grid["y"], grid["y"] + grid["h"])}
        assert not cells & taken and grid["x"] + grid["w"] <= 24, panel["title"]
        taken |= cells
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))


def test_configmap_contains_the_dashboard_unchanged():
    config_map = chart.only(chart.rendered("monitoring"), "ConfigMap", "-dashboard")
    assert json.loads(config_map["data"]["ebb.json"]) == DASHBOARD
    assert config_map["metadata"]["labels"]["grafana_dashboard"] == "1"
