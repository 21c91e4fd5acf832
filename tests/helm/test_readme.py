"""Every value has its meaning, its schema, and its line in the README."""

import importlib.util
import json
import subprocess
import sys

import yaml

import chart

SCRIPT = chart.ROOT / "scripts" / "helm" / "readme.py"
VALUES_TEXT = (chart.CHART / "values.yaml").read_text()


def readme():
    spec = importlib.util.spec_from_file_location("readme", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def leaves(value, path=()):
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from leaves(below, (*path, key))
    else:
        yield path


def test_the_readme_is_current():
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_value_has_a_meaning():
    meant = {path for _, path, _ in readme().documented(VALUES_TEXT)}
    for leaf in leaves(yaml.safe_load(VALUES_TEXT)):
        assert any(leaf[: len(path)] == path for path in meant), ".".join(leaf)


# Sections of Kubernetes' own, of which the values show a part.
PARTLY_SHOWN = {("resources",), ("updateStrategy",), ("probes", "liveness"), ("probes", "readiness")}


def keys(schema, path=()):
    """Every key that the schema knows, down to where it lets anything in."""
    if path in PARTLY_SHOWN or schema.get("additionalProperties") is not False:
        yield path
        return
    for name, below in schema["properties"].items():
        yield from keys(below, (*path, name))


def shown(values, path):
    for step in path:
        if not isinstance(values, dict) or step not in values:
            return False
        values = values[step]
    return True


def test_every_key_that_the_schema_knows_has_a_default():
    schema = json.loads((chart.CHART / "values.schema.json").read_text())
    values = yaml.safe_load(VALUES_TEXT)
    missing = [".".join(path) for path in keys(schema) if not shown(values, path)]
    # Helm's own.
    assert missing == ["global"]
