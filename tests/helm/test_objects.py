"""Names, volumes, probes, and what is there only when it is asked for."""

import re

import pytest
import yaml

import chart

every_set = pytest.mark.parametrize("name", chart.VALUE_SETS)


@every_set
def test_probes_ask_the_admin_port(name):
    objects = chart.rendered(name)
    container = chart.container(objects)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert chart.variables(objects)["EBB_HTTP__ADMIN_LISTEN"]["value"].endswith(f":{ports['admin']}'")
    assert chart.variables(objects)["EBB_HTTP__LISTEN"]["value"].endswith(f":{ports['http']}'")
    asked = {probe: container[f"{probe}Probe"]["httpGet"] for probe in ["startup", "liveness", "readiness"]}
    assert asked == {
        "startup": {"path": "/readyz", "port": "admin"},
        "liveness": {"path": "/livez", "port": "admin"},
        "readiness": {"path": "/readyz", "port": "admin"},
    }


@pytest.mark.parametrize("seconds, period, asks", [(1800, 5, 360), (7200, 10, 720), (7, 5, 2), (1, 5, 1)])
def test_the_startup_probe_waits_as_long_as_restoring_may_take(seconds, period, asks):
    probe = {"startup": {"restoreSeconds": seconds, "periodSeconds": period}}
    assert chart.container(chart.render({"probes": probe}))["startupProbe"]["failureThreshold"] == asks


@every_set
def test_stopping_may_take_longer_than_the_drain_and_the_last_checkpoint(name):
    objects = chart.rendered(name)
    pod = chart.service_pod(objects)
    config = yaml.safe_load(chart.config_text(objects))
    seconds = lambda text: int(text.removesuffix("s"))
    drain = seconds(config.get("http", {}).get("drain", "10s"))
    deadline = seconds(config.get("checkpoint", {}).get("deadline", "10s"))
    waiting = chart.container(objects).get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    assert pod["terminationGracePeriodSeconds"] > waiting + drain + deadline


def test_the_statefulset_has_stable_names_and_volumes():
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
def test_everything_selects_the_pods_of_the_release_and_no_others(name):
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
                assert not selector.items() <= pod["metadata"]["labels"].items(), "a test pod is no instance"


def test_pods_spread_over_zones_and_nodes():
    constraints = chart.service_pod(chart.rendered("kafka"))["topologySpreadConstraints"]
    assert [c["topologyKey"] for c in constraints] == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
    assert [c["topologyKey"] for c in chart.service_pod(chart.rendered("placed"))["topologySpreadConstraints"]] == ["rack"]


def test_the_autoscaler_is_off_unless_asked_for_and_then_owns_the_number():
    for name in chart.VALUE_SETS:
        objects = chart.rendered(name)
        asked = name == "autoscaled"
        assert ("HorizontalPodAutoscaler" in chart.kinds(objects)) == asked
        assert ("replicas" not in chart.only(objects, "StatefulSet")["spec"]) == asked
    scaled = chart.only(chart.rendered("autoscaled"), "HorizontalPodAutoscaler")["spec"]
    assert scaled["scaleTargetRef"]["name"] == chart.only(chart.rendered("autoscaled"), "StatefulSet")["metadata"]["name"]


def test_what_is_optional_is_absent_unless_asked_for():
    plain = set(chart.kinds(chart.rendered("starter")))
    assert plain == {"ConfigMap", "NetworkPolicy", "Pod", "PodDisruptionBudget", "Service", "ServiceAccount", "StatefulSet"}
    bare = set(chart.kinds(chart.rendered("ephemeral")))
    assert bare == {"ConfigMap", "Pod", "Service", "StatefulSet"}
    assert {"Ingress"} <= set(chart.kinds(chart.rendered("public")))
    assert {"ServiceMonitor", "PrometheusRule"} <= set(chart.kinds(chart.rendered("watched")))


def test_prometheus_scrapes_every_instance_ready_or_not():
    objects = chart.rendered("watched")
    monitor = chart.only(objects, "ServiceMonitor")["spec"]
    chosen = [
        o for o in objects
        if o["kind"] == "Service" and monitor["selector"]["matchLabels"].items() <= o["metadata"]["labels"].items()
    ]
    assert [o["spec"]["publishNotReadyAddresses"] for o in chosen] == [True]
    assert monitor["endpoints"][0]["port"] in [port["name"] for port in chosen[0]["spec"]["ports"]]


def test_a_volume_is_used_unless_it_is_refused():
    kept, lost = chart.rendered("embedded"), chart.rendered("ephemeral")
    claim = chart.only(kept, "StatefulSet")["spec"]["volumeClaimTemplates"][0]["spec"]
    assert claim["storageClassName"] == "fast" and claim["resources"]["requests"]["storage"] == "20Gi"
    assert "volumeClaimTemplates" not in chart.only(lost, "StatefulSet")["spec"]
    data = next(volume for volume in chart.service_pod(lost)["volumes"] if volume["name"] == "data")
    assert data["emptyDir"]["sizeLimit"] == "2Gi"


def test_older_clusters_are_not_told_what_they_do_not_know():
    old, new = chart.rendered("starter", "1.25.0"), chart.rendered("starter", "1.34.0")
    assert "lifecycle" not in chart.container(old) and "lifecycle" in chart.container(new)
    assert "unhealthyPodEvictionPolicy" not in chart.only(old, "PodDisruptionBudget")["spec"]


def test_names_stay_within_bounds():
    name = "x" * 53
    printed = chart.helm("template", name, chart.CHART, values={})
    for o in yaml.safe_load_all(printed):
        assert len(o["metadata"]["name"]) <= 63
        assert all(len(value) <= 63 for value in o["metadata"]["labels"].values())


def test_the_image_is_named_by_digest_or_tag():
    assert chart.container(chart.rendered("placed"))["image"] == "images.example.com/team/ebb@sha256:" + "1" * 64
    version = yaml.safe_load((chart.CHART / "Chart.yaml").read_text())["appVersion"]
    assert chart.container(chart.rendered("starter"))["image"] == f"ebb:{version}"


def test_the_chart_ships_the_version_of_the_crate():
    manifest = (chart.ROOT / "Cargo.toml").read_text()
    crate = re.search(r'^version = "(.*)"$', manifest, re.M)[1]
    described = yaml.safe_load((chart.CHART / "Chart.yaml").read_text())
    assert described["appVersion"] == crate
