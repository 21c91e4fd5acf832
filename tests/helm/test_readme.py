"""Every value is documented, has a schema, and is listed in the README."""

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


def test_readme_is_current():
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_value_is_documented():
    documented = {path for _, path, _ in readme().documented(VALUES_TEXT)}
    for leaf in leaves(yaml.safe_load(VALUES_TEXT)):
        assert any(leaf[: len(path)] == path for path in documented), ".".join(leaf)


# Sections with the schema of Kubernetes, of which values.yaml shows only some keys.
PARTIAL = {("resources",), ("updateStrategy",), ("probes", "liveness"), ("probes", "readiness")}


def keys(schema, path=()):
    """Every key of the schema, down to objects with arbitrary keys."""
    if path in PARTIAL or schema.get("additionalProperties") is not False:
        yield path
        return
    for name, below in schema["properties"].items():
        yield from keys(below, (*path, name))


def has_default(values, path):
    for step in path:
        if not isinstance(values, dict) or step not in values:
            return False
        values = values[step]
    return True


def test_every_key_of_the_schema_has_a_default():
    schema = json.loads((chart.CHART / "values.schema.json").read_text())
    values = yaml.safe_load(VALUES_TEXT)
    missing = [".".join(path) for path in keys(schema) if not has_default(values, path)]
    # Reserved by Helm.
    assert missing == ["global"]
