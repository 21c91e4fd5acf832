"""Every value set passes `helm lint` and renders objects that are valid for Kubernetes and the Prometheus operator."""

import copy

import jsonschema
import kubernetes_validate
import pytest
import yaml

import chart

# The oldest supported version, versions before and after each version-dependent field, and the newest.
KUBE_VERSIONS = ["1.25", "1.26", "1.27", "1.29", "1.30", "1.33", "1.35", "1.37"]
OPERATOR = "monitoring.coreos.com/v1"


def operator_schemas():
    definitions = yaml.safe_load_all((chart.TOOLS / "operator.yaml").read_text())
    return {d["spec"]["names"]["kind"]: d["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for d in definitions}


def strict(schema):
    """The same schema without unknown fields, as with strict field validation on the server."""
    if isinstance(schema, list):
        return [strict(element) for element in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: strict(value) for key, value in schema.items()}
    if isinstance(schema.get("pattern"), str):
        # Go accepts flags anywhere, Python only at the start.
        schema["pattern"] = schema["pattern"].replace("^(?i)", "(?i)^")
    # The schema of metadata is empty here: the server adds it.
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
def test_helm_lint_passes(name):
    chart.helm("lint", "--strict", chart.CHART, "--namespace", chart.NAMESPACE, values=chart.value_set(name))


@pytest.mark.parametrize("kube_version", KUBE_VERSIONS)
@pytest.mark.parametrize("name", chart.VALUE_SETS)
def test_objects_are_valid_for_the_api(name, kube_version):
    for o in chart.rendered(name, f"{kube_version}.0"):
        check(o, kube_version)


def test_schemas_reject_invalid_objects():
    objects = chart.rendered("monitoring")
    for kind, path, wrong in [
        ("StatefulSet", ["spec", "replicas"], "one"),
        ("StatefulSet", ["spec", "template", "spec", "containers", 0, "livenessProb"], {}),
        ("Service", ["spec", "ports", 0, "targetport"], 80),
        ("ServiceMonitor", ["spec", "endpoints", 0, "interval"], "soon"),
        ("ServiceMonitor", ["spec", "endpoints", 0, "intervall"], "30s"),
        ("PrometheusRule", ["spec", "groups", 0, "rules", 0, "expr"], None),
    ]:
        o = copy.deepcopy(next(o for o in objects if o["kind"] == kind))
        parent = o
        for step in path[:-1]:
            parent = parent[step]
        parent[path[-1]] = wrong
        with pytest.raises((jsonschema.ValidationError, kubernetes_validate.ValidationError)):
            check(o, "1.34")


def test_unsupported_cluster_version_is_rejected():
    with pytest.raises(chart.HelmError, match="incompatible"):
        chart.render({}, "1.24.0")
