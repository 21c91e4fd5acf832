"""Renders the chart with the real helm and gives access to the resulting objects."""

import json
import os
import subprocess
from functools import cache
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "helm" / "ebb"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
TOOLS = ROOT / ".cache" / "tools"
VALUES = Path(__file__).parent / "values"
NAMESPACE = "streams"
RELEASE = "clicks"
KUBE_VERSION = "1.34.0"

VALUE_SETS = sorted(path.stem for path in VALUES.glob("*.yaml"))


class HelmError(Exception):
    """Output of a helm command that failed."""


def helm(*arguments, values=None):
    """Runs helm and returns its output. Values are passed on standard input."""
    command = [TOOLS / "helm", *arguments]
    document = None
    if values is not None:
        command += ["--values", "-"]
        document = json.dumps(values)
    done = subprocess.run(command, input=document, capture_output=True, text=True)
    if done.returncode:
        raise HelmError(done.stdout + done.stderr)
    return done.stdout


def render(values, kube_version=KUBE_VERSION):
    """All objects of a release with these values."""
    printed = helm("template", RELEASE, CHART, "--namespace", NAMESPACE, "--kube-version", kube_version, values=values)
    return [document for document in yaml.safe_load_all(printed) if document]


@cache
def value_set(name):
    return yaml.safe_load((VALUES / f"{name}.yaml").read_text()) or {}


@cache
def rendered(name, kube_version=KUBE_VERSION):
    return render(value_set(name), kube_version)


def only(objects, kind, suffix=""):
    """The only object of a kind whose name ends with `suffix`."""
    found = [o for o in objects if o["kind"] == kind and o["metadata"]["name"].endswith(suffix)]
    assert len(found) == 1, f"{len(found)} of {kind}: {[o['metadata']['name'] for o in found]}"
    return found[0]


def kinds(objects):
    return [o["kind"] for o in objects]


def pods(objects):
    """Name and specification of every pod that the objects create."""
    for o in objects:
        if o["kind"] == "StatefulSet":
            yield o["metadata"]["name"], o["spec"]["template"]["spec"]
        if o["kind"] == "Pod":
            yield o["metadata"]["name"], o["spec"]


def service_pod(objects):
    return only(objects, "StatefulSet")["spec"]["template"]["spec"]


def container(objects):
    return service_pod(objects)["containers"][0]


def variables(objects):
    return {entry["name"]: entry for entry in container(objects)["env"]}


def config_text(objects):
    named = {volume["name"]: volume for volume in service_pod(objects)["volumes"]}
    name = named["config"]["configMap"]["name"]
    maps = [o for o in objects if o["kind"] == "ConfigMap" and o["metadata"]["name"] == name]
    return maps[0]["data"]["ebb.yaml"]
