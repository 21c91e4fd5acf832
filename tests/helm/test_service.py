"""Runs the service with the rendered configuration, secrets and pod settings."""

import os
import re
import signal
import socket
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

import chart
import sandbox

# Value sets that need no broker.
EMBEDDED = ["starter", "embedded", "public", "text", "ephemeral"]


def service_sandbox(objects, folder):
    stateful = chart.only(objects, "StatefulSet")
    return sandbox.Sandbox(objects, f"{stateful['metadata']['name']}-0", chart.service_pod(objects), folder)


@pytest.mark.parametrize("name", chart.VALUE_SETS)
def test_service_accepts_the_rendered_configuration(name, tmp_path):
    pod = service_sandbox(chart.rendered(name), tmp_path)
    status, output = pod.run("ebb", "check", "/etc/ebb/config/ebb.yaml")
    assert status == 0 and ": ok" in output, output


def test_service_rejects_an_invalid_configuration(tmp_path):
    objects = chart.render({"config": {"streams": {"s": {"event": {"itm": "ip"}}}}})
    status, output = service_sandbox(objects, tmp_path).run("ebb", "check", "/etc/ebb/config/ebb.yaml")
    assert status == 2 and "itm" in output, output


def test_sandbox_matches_the_pods_security_context(tmp_path):
    pod = service_sandbox(chart.rendered("starter"), tmp_path)
    script = "id -u; for d in / /etc /usr /etc/ebb/config; do touch $d/x 2>&1; done; grep CapEff /proc/self/status"
    _, output = pod.run("sh", "-c", script)
    assert output.startswith("65532\n") and output.count("Read-only file system") == 4, output
    assert re.search(r"CapEff:\s+0{16}\n", output), output
    status, output = pod.run("sh", "-c", "touch /tmp/x /var/lib/ebb/x")
    assert status == 0, output


@pytest.mark.parametrize("name", EMBEDDED)
def test_service_runs_and_passes_the_helm_test(name, tmp_path):
    with running_service(name, tmp_path) as (objects, admin, stop):
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"]:
            assert get(admin, chart.container(objects)[probe]["httpGet"]["path"])[0] == 200, probe
        assert "ebb_ready 1" in get(admin, "/metrics")[1]
        pod, command = hook(objects, tmp_path / "hook")
        status, output = pod.run(*command)
        print(" ".join(command), output, sep="\n")
        assert status == 0 and re.search('"verdict":"(unique|duplicate|late)"', output), output
        assert stop(timeout=chart.service_pod(objects)["terminationGracePeriodSeconds"]) == 0


def test_helm_test_fails_with_an_unknown_token(tmp_path):
    with running_service("public", tmp_path) as (objects, _, _):
        pod, command = hook(objects, tmp_path / "hook")
        sandbox.fill(tmp_path / "hook" / "secrets", {"token": "another-token-that-is-not-known"})
        status, output = pod.run(*command)
        assert status == 1 and "401" in output, output


@contextmanager
def running_service(name, folder):
    """The rendered pod of a value set, running and ready on free ports."""
    http, admin = free_ports(2)
    # There is no Service in front of the pod, so the ports are the same.
    service = {**chart.value_set(name).get("service", {}), "port": http}
    objects = chart.render({**chart.value_set(name), "ports": {"http": http, "admin": admin}, "service": service})
    with open(folder / "log", "w+") as log:
        process, pid = service_sandbox(objects, folder / "pod").start(log)

        def stop(timeout):
            os.kill(pid, signal.SIGTERM)
            return process.wait(timeout)

        try:
            wait_until_ready(admin, process)
            yield objects, admin, stop
        finally:
            process.kill()
            process.wait()
            log.seek(0)
            print(log.read())


def wait_until_ready(admin, process):
    end = time.monotonic() + 60
    while get(admin, "/readyz")[0] != 200:
        assert process.poll() is None, "the service exited"
        assert time.monotonic() < end, "not ready within 60 s"
        time.sleep(0.05)


def hook(objects, folder):
    """The pod of `helm test` and its command."""
    pod = chart.only(objects, "Pod", "-test")
    test_pod = sandbox.Sandbox(objects, pod["metadata"]["name"], pod["spec"], folder)
    return test_pod, pod["spec"]["containers"][0]["command"]


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def get(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)
