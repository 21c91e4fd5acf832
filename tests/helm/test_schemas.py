"""Every value set passes helm's own linter and becomes objects that Kubernetes' and the operator's schemas take."""

import copy

import jsonschema
import kubernetes_validate
import pytest
import yaml

import chart

# The oldest that the chart names, the one before the first that knows each newer field, and the newest.
KUBE_VERSIONS = ["1.25", "1.26", "1.27", "1.29", "1.30", "1.33", "1.35", "1.37"]
OPERATOR = "monitoring.coreos.com/v1"


def operator_schemas():
    definitions = yaml.safe_load_all((chart.TOOLS / "operator.yaml").read_text())
    return {d["spec"]["names"]["kind"]: d["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for d in definitions}


def strict(schema):
    """The same schema, refusing fields that it does not name, as a server with strict field validation does."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: strict(part) for key, part in schema.items()}
    if isinstance(schema.get("pattern"), str):
        # Go takes flags anywhere, Python only first.
        schema["pattern"] = schema["pattern"].replace("^(?i)", "(?i)^")
    # metadata is the server's own, and is empty here.
    if schema.get("properties") and "x-kubernetes-preserve-unknown-fields" not in schema:
        schema.setdefault("additionalProperties", False)
    return schema


OPERATOR_SCHEMAS = {kind: strict(schema) for kind, schema in operator_schemas().items()}


def check(o, kube_version):
    if o["apiVersion"] == OPERATOR:
        jsonschema.validate(o, OPERATOR_SCHEMAS[o["kind"]])
    else:
        kubernetes_validate.validate(o, kube_version, strict=True)


def test_there_are_enough_value_sets():
    assert len(chart.VALUE_SETS) >= 8


@pytest.mark.parametrize("name", chart.VALUE_SETS)
def test_helms_linter_has_nothing_to_say_against_a_value_set(name):
    chart.helm("lint", "--strict", chart.CHART, "--namespace", chart.NAMESPACE, values=chart.value_set(name))


@pytest.mark.parametrize("kube_version", KUBE_VERSIONS)
@pytest.mark.parametrize("name", chart.VALUE_SETS)
def test_every_object_is_one_that_the_api_takes(name, kube_version):
    for o in chart.rendered(name, f"{kube_version}.0"):
        check(o, kube_version)


def test_the_schemas_refuse_what_is_wrong():
    objects = chart.rendered("watched")
    for kind, path, wrong in [
        ("StatefulSet", ["spec", "replicas"], "one"),
        ("StatefulSet", ["spec", "template", "spec", "containers", 0, "livenessProb"], {}),
        ("Service", ["spec", "ports", 0, "targetport"], 80),
        ("ServiceMonitor", ["spec", "endpoints", 0, "interval"], "soon"),
        ("ServiceMonitor", ["spec", "endpoints", 0, "intervall"], "30s"),
        ("PrometheusRule", ["spec", "groups", 0, "rules", 0, "expr"], None),
    ]:
        o = copy.deepcopy(next(o for o in objects if o["kind"] == kind))
        place = o
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = wrong
        with pytest.raises((jsonschema.ValidationError, kubernetes_validate.ValidationError)):
            check(o, "1.34")


def test_a_cluster_that_is_too_old_is_refused():
    with pytest.raises(chart.Refused, match="incompatible"):
        chart.render({}, "1.24.0")
