"""Names, volumes, probes, selectors and optional objects."""

import re

import pytest
import yaml

import chart

every_set = pytest.mark.parametrize("name", chart.VALUE_SETS)


@every_set
def test_probes_use_the_admin_port(name):
    objects = chart.rendered(name)
    container = chart.container(objects)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert chart.variables(objects)["EBB_HTTP__ADMIN_LISTEN"]["value"].endswith(f":{ports['admin']}'")
    assert chart.variables(objects)["EBB_HTTP__LISTEN"]["value"].endswith(f":{ports['http']}'")
    probes = {probe: container[f"{probe}Probe"]["httpGet"] for probe in ["startup", "liveness", "readiness"]}
    assert probes == {
        "startup": {"path": "/readyz", "port": "admin"},
        "liveness": {"path": "/livez", "port": "admin"},
        "readiness": {"path": "/readyz", "port": "admin"},
    }


@pytest.mark.parametrize("seconds, period, threshold", [(1800, 5, 360), (7200, 10, 720), (7, 5, 2), (1, 5, 1)])
def test_startup_probe_allows_the_restore_time(seconds, period, threshold):
    probe = {"startup": {"restoreSeconds": seconds, "periodSeconds": period}}
    assert chart.container(chart.render({"probes": probe}))["startupProbe"]["failureThreshold"] == threshold


@every_set
def test_grace_period_exceeds_drain_and_last_checkpoint(name):
    objects = chart.rendered(name)
    pod = chart.service_pod(objects)
    config = yaml.safe_load(chart.config_text(objects))
    seconds = lambda text: int(text.removesuffix("s"))
    drain = seconds(config.get("http", {}).get("drain", "10s"))
    deadline = seconds(config.get("checkpoint", {}).get("deadline", "10s"))
    pre_stop = chart.container(objects).get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    assert pod["terminationGracePeriodSeconds"] > pre_stop + drain + deadline


def test_statefulset_has_stable_names_and_volumes():
    objects = chart.rendered("kafka")
    stateful = chart.only(objects, "StatefulSet")["spec"]
    headless = chart.only(objects, "Service", "-headless")
    assert stateful["serviceName"] == headless["metadata"]["name"]
    assert headless["spec"]["clusterIP"] == "None" and headless["spec"]["publishNotReadyAddresses"] is True
    assert stateful["replicas"] == 3 and stateful["podManagementPolicy"] == "Parallel"
    claim = stateful["volumeClaimTemplates"][0]
    mounts = {mount["name"]: mount["mountPath"] for mount in chart.container(objects)["volumeMounts"]}
    assert mounts[claim["metadata"]["name"]] == chart.variables(objects)["EBB_DATA_DIR"]["value"]
    assert stateful["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}


@every_set
def test_selectors_match_only_the_pods_of_the_release(name):
    objects = chart.rendered(name)
    template = chart.only(objects, "StatefulSet")["spec"]["template"]["metadata"]["labels"]
    for o in objects:
        spec = o.get("spec", {})
        selectors = {
            "Service": [spec.get("selector")],
            "StatefulSet": [spec.get("selector", {}).get("matchLabels")],
            "PodDisruptionBudget": [spec.get("selector", {}).get("matchLabels")],
            "NetworkPolicy": [spec.get("podSelector", {}).get("matchLabels")],
        }.get(o["kind"], [])
        for selector in selectors:
            assert selector.items() <= template.items()
            assert selector["app.kubernetes.io/instance"] == chart.RELEASE
            for pod in (o for o in objects if o["kind"] == "Pod"):
                assert not selector.items() <= pod["metadata"]["labels"].items(), "a selector matches the test pod"


def test_pods_spread_over_zones_and_nodes():
    constraints = chart.service_pod(chart.rendered("kafka"))["topologySpreadConstraints"]
    assert [c["topologyKey"] for c in constraints] == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
    assert [c["topologyKey"] for c in chart.service_pod(chart.rendered("scheduling"))["topologySpreadConstraints"]] == ["rack"]


def test_autoscaler_is_optional_and_owns_the_replica_count():
    for name in chart.VALUE_SETS:
        objects = chart.rendered(name)
        enabled = name == "autoscaled"
        assert ("HorizontalPodAutoscaler" in chart.kinds(objects)) == enabled
        assert ("replicas" not in chart.only(objects, "StatefulSet")["spec"]) == enabled
    scaled = chart.only(chart.rendered("autoscaled"), "HorizontalPodAutoscaler")["spec"]
    assert scaled["scaleTargetRef"]["name"] == chart.only(chart.rendered("autoscaled"), "StatefulSet")["metadata"]["name"]


def test_optional_objects_are_absent_by_default():
    plain = set(chart.kinds(chart.rendered("starter")))
    assert plain == {"ConfigMap", "NetworkPolicy", "Pod", "PodDisruptionBudget", "Service", "ServiceAccount", "StatefulSet"}
    bare = set(chart.kinds(chart.rendered("ephemeral")))
    assert bare == {"ConfigMap", "Pod", "Service", "StatefulSet"}
    assert {"Ingress"} <= set(chart.kinds(chart.rendered("public")))
    assert {"ServiceMonitor", "PrometheusRule"} <= set(chart.kinds(chart.rendered("monitoring")))


def test_prometheus_scrapes_every_instance_ready_or_not():
    objects = chart.rendered("monitoring")
    monitor = chart.only(objects, "ServiceMonitor")["spec"]
    chosen = [
        o for o in objects
        if o["kind"] == "Service" and monitor["selector"]["matchLabels"].items() <= o["metadata"]["labels"].items()
    ]
    assert [o["spec"]["publishNotReadyAddresses"] for o in chosen] == [True]
    assert monitor["endpoints"][0]["port"] in [port["name"] for port in chosen[0]["spec"]["ports"]]


def test_volume_can_be_disabled():
    kept, lost = chart.rendered("embedded"), chart.rendered("ephemeral")
    claim = chart.only(kept, "StatefulSet")["spec"]["volumeClaimTemplates"][0]["spec"]
    assert claim["storageClassName"] == "fast" and claim["resources"]["requests"]["storage"] == "20Gi"
    assert "volumeClaimTemplates" not in chart.only(lost, "StatefulSet")["spec"]
    data = next(volume for volume in chart.service_pod(lost)["volumes"] if volume["name"] == "data")
    assert data["emptyDir"]["sizeLimit"] == "2Gi"


def test_older_clusters_get_no_newer_fields():
    old, new = chart.rendered("starter", "1.25.0"), chart.rendered("starter", "1.34.0")
    assert "lifecycle" not in chart.container(old) and "lifecycle" in chart.container(new)
    assert "unhealthyPodEvictionPolicy" not in chart.only(old, "PodDisruptionBudget")["spec"]


def test_names_and_labels_are_at_most_63_characters():
    name = "x" * 53
    printed = chart.helm("template", name, chart.CHART, values={})
    for o in yaml.safe_load_all(printed):
        assert len(o["metadata"]["name"]) <= 63
        assert all(len(value) <= 63 for value in o["metadata"]["labels"].values())


def test_image_is_referenced_by_digest_or_tag():
    assert chart.container(chart.rendered("scheduling"))["image"] == "images.example.com/team/ebb@sha256:" + "1" * 64
    version = yaml.safe_load((chart.CHART / "Chart.yaml").read_text())["appVersion"]
    assert chart.container(chart.rendered("starter"))["image"] == f"ebb:{version}"


def test_app_version_is_the_version_of_the_crate():
    manifest = (chart.ROOT / "Cargo.toml").read_text()
    crate = re.search(r'^version = "(.*)"$', manifest, re.M)[1]
    described = yaml.safe_load((chart.CHART / "Chart.yaml").read_text())
    assert described["appVersion"] == crate
