"""Pods satisfy Pod Security `restricted`, mount no service account token, and use secrets by reference only."""

import re

import pytest
import yaml

import chart

every_set = pytest.mark.parametrize("name", chart.VALUE_SETS)


def containers(pod):
    return pod.get("initContainers", []) + pod["containers"]


@every_set
def test_pods_satisfy_pod_security_restricted(name):
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
def test_no_pod_mounts_a_service_account_token(name):
    objects = chart.rendered(name)
    for _, pod in chart.pods(objects):
        assert pod["automountServiceAccountToken"] is False
        assert "serviceAccountToken" not in str(pod)
    for o in objects:
        assert o["kind"] != "ServiceAccount" or o["automountServiceAccountToken"] is False
        assert o["kind"] not in {"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"}


@every_set
def test_containers_have_resource_limits(name):
    for _, pod in chart.pods(chart.rendered(name)):
        for container in containers(pod):
            resources = container["resources"]
            assert resources["limits"]["memory"] and resources["requests"]["cpu"]
        for volume in pod.get("volumes", []):
            assert "emptyDir" not in volume or volume["emptyDir"]["sizeLimit"], volume


@every_set
def test_secrets_are_referenced_and_never_rendered(name):
    objects = chart.rendered(name)
    assert "Secret" not in chart.kinds(objects)
    expected = referenced(chart.value_set(name).get("secrets", {}))
    found = {}
    for volume in chart.service_pod(objects)["volumes"]:
        for source in volume.get("projected", {}).get("sources", []):
            assert set(source) == {"secret"}
            assert source["secret"].get("optional") is not True
            for item in source["secret"]["items"]:
                found.setdefault(source["secret"]["name"], set()).add(item["key"])
        assert volume.get("projected", {}).get("defaultMode", 0o440) == 0o440
    assert {name: keys for name, keys in found.items()} == expected
    for entry in chart.container(objects)["env"]:
        if re.search("PASSWORD|SECRET|USERNAME|OAUTHBEARER_CONFIG", entry["name"]):
            assert re.fullmatch(r"\{file: /etc/ebb/secrets/[a-z./]+\}", entry["value"]), entry


def referenced(secrets):
    """The entries of each secret that the values reference, defaults included."""
    defaults = yaml.safe_load((chart.CHART / "values.yaml").read_text())["secrets"]
    names = {}
    for section, values in secrets.items():
        if section == "kafkaProperties":
            for reference in values.values():
                names.setdefault(reference["existingSecret"], set()).add(reference["key"])
            continue
        full = {**defaults[section], **values}
        entries = {value for key, value in full.items() if key.lower().endswith("key") and value}
        names.setdefault(full["existingSecret"], set()).update(entries)
    return names


@every_set
def test_secret_files_named_by_variables_are_mounted(name):
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
def test_security_protocol_follows_from_the_secrets(name, protocol):
    variable = chart.variables(chart.rendered(name)).get("EBB_KAFKA__PROPERTIES__SECURITY_PROTOCOL", {})
    assert variable.get("value") == protocol


@pytest.mark.parametrize("properties, mechanism", [({}, "SCRAM-SHA-512"), ({"sasl.mechanism": "PLAIN"}, None), ({"sasl.mechanisms": "PLAIN"}, None)])
def test_configured_sasl_mechanism_is_not_overridden(properties, mechanism):
    config = {"kafka": {"brokers": "k:1", "properties": properties}, "streams": {"s": {"event": {"item": "ip"}}}}
    objects = chart.render({"config": config, "secrets": {"kafkaSasl": {"existingSecret": "s"}}})
    assert chart.variables(objects).get("EBB_KAFKA__PROPERTIES__SASL_MECHANISM", {}).get("value") == mechanism
