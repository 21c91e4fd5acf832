"""Pods within Pod Security `restricted`, no token of the cluster, secrets only by reference."""

import re

import pytest
import yaml

import chart

every_set = pytest.mark.parametrize("name", chart.VALUE_SETS)


def containers(pod):
    return pod.get("initContainers", []) + pod["containers"]


@every_set
def test_every_pod_is_within_pod_security_restricted(name):
    for _, pod in chart.pods(chart.rendered(name)):
        context = pod["securityContext"]
        assert context["runAsNonRoot"] is True
        assert context["runAsUser"] > 0 and context["runAsGroup"] > 0
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not any(pod.get(key) for key in ["hostNetwork", "hostPID", "hostIPC"])
        allowed = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
        for volume in pod.get("volumes", []):
            assert set(volume) - {"name"} <= allowed, volume
        for container in containers(pod):
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert not context.get("privileged")
            assert all("hostPort" not in port for port in container.get("ports", []))


@every_set
def test_no_pod_holds_a_token_of_the_cluster(name):
    objects = chart.rendered(name)
    for _, pod in chart.pods(objects):
        assert pod["automountServiceAccountToken"] is False
        assert "serviceAccountToken" not in str(pod)
    for o in objects:
        assert o["kind"] != "ServiceAccount" or o["automountServiceAccountToken"] is False
        assert o["kind"] not in {"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"}


@every_set
def test_every_container_has_bounds(name):
    for _, pod in chart.pods(chart.rendered(name)):
        for container in containers(pod):
            resources = container["resources"]
            assert resources["limits"]["memory"] and resources["requests"]["cpu"]
        for volume in pod.get("volumes", []):
            assert "emptyDir" not in volume or volume["emptyDir"]["sizeLimit"], volume


@every_set
def test_secrets_are_only_named_never_held(name):
    objects = chart.rendered(name)
    assert "Secret" not in chart.kinds(objects)
    wanted = referenced(chart.value_set(name).get("secrets", {}))
    found = {}
    for volume in chart.service_pod(objects)["volumes"]:
        for source in volume.get("projected", {}).get("sources", []):
            assert set(source) == {"secret"}
            assert source["secret"].get("optional") is not True
            for item in source["secret"]["items"]:
                found.setdefault(source["secret"]["name"], set()).add(item["key"])
        assert volume.get("projected", {}).get("defaultMode", 0o440) == 0o440
    assert {name: keys for name, keys in found.items()} == wanted
    for entry in chart.container(objects)["env"]:
        if re.search("PASSWORD|SECRET|USERNAME|OAUTHBEARER_CONFIG", entry["name"]):
            assert re.fullmatch(r"\{file: /etc/ebb/secrets/[a-z./]+\}", entry["value"]), entry


def referenced(secrets):
    """Which entries of which secrets the values name, defaults included."""
    defaults = yaml.safe_load((chart.CHART / "values.yaml").read_text())["secrets"]
    names = {}
    for part, given in secrets.items():
        if part == "kafkaProperties":
            for reference in given.values():
                names.setdefault(reference["existingSecret"], set()).add(reference["key"])
            continue
        full = {**defaults[part], **given}
        entries = {value for key, value in full.items() if key.lower().endswith("key") and value}
        names.setdefault(full["existingSecret"], set()).update(entries)
    return names


@every_set
def test_every_secret_file_that_a_variable_names_is_mounted(name):
    objects = chart.rendered(name)
    mounted = set()
    for volume in chart.service_pod(objects)["volumes"]:
        for source in volume.get("projected", {}).get("sources", []):
            mounted |= {f"/etc/ebb/secrets/{item['path']}" for item in source["secret"]["items"]}
    named = set(re.findall(r"/etc/ebb/secrets/[^}\"' ]+", str(chart.container(objects)["env"])))
    assert named == mounted


@pytest.mark.parametrize(
    "name, protocol", [("kafka-scram", "SASL_SSL"), ("kafka-mutual-tls", "SSL"), ("kafka-oauth", None), ("kafka", None)]
)
def test_the_security_protocol_follows_from_the_secrets(name, protocol):
    told = chart.variables(chart.rendered(name)).get("EBB_KAFKA__PROPERTIES__SECURITY_PROTOCOL", {})
    assert told.get("value") == protocol


@pytest.mark.parametrize("given, told", [({}, "SCRAM-SHA-512"), ({"sasl.mechanism": "PLAIN"}, None), ({"sasl.mechanisms": "PLAIN"}, None)])
def test_a_mechanism_that_the_configuration_names_stays(given, told):
    config = {"kafka": {"brokers": "k:1", "properties": given}, "streams": {"s": {"event": {"item": "ip"}}}}
    objects = chart.render({"config": config, "secrets": {"kafkaSasl": {"existingSecret": "s"}}})
    assert chart.variables(objects).get("EBB_KAFKA__PROPERTIES__SASL_MECHANISM", {}).get("value") == told
