"""The service itself, with what the chart rendered for it."""

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

# Those that need no broker.
EMBEDDED = ["starter", "embedded", "public", "text", "ephemeral"]


def service_sandbox(objects, folder):
    stateful = chart.only(objects, "StatefulSet")
    return sandbox.Sandbox(objects, f"{stateful['metadata']['name']}-0", chart.service_pod(objects), folder)


@pytest.mark.parametrize("name", chart.VALUE_SETS)
def test_the_service_takes_the_rendered_configuration(name, tmp_path):
    within = service_sandbox(chart.rendered(name), tmp_path)
    status, told = within.run("ebb", "check", "/etc/ebb/config/ebb.yaml")
    assert status == 0 and ": ok" in told, told


def test_the_service_refuses_a_configuration_that_is_wrong(tmp_path):
    objects = chart.render({"config": {"streams": {"s": {"event": {"itm": "ip"}}}}})
    status, told = service_sandbox(objects, tmp_path).run("ebb", "check", "/etc/ebb/config/ebb.yaml")
    assert status == 2 and "itm" in told, told


def test_the_sandbox_is_what_the_pod_asks_for(tmp_path):
    within = service_sandbox(chart.rendered("starter"), tmp_path)
    script = "id -u; for d in / /etc /usr /etc/ebb/config; do touch $d/x 2>&1; done; grep CapEff /proc/self/status"
    _, told = within.run("sh", "-c", script)
    assert told.startswith("65532\n") and told.count("Read-only file system") == 4, told
    assert re.search(r"CapEff:\s+0{16}\n", told), told
    status, told = within.run("sh", "-c", "touch /tmp/x /var/lib/ebb/x")
    assert status == 0, told


@pytest.mark.parametrize("name", EMBEDDED)
def test_the_service_runs_and_passes_the_helm_test(name, tmp_path):
    with served(name, tmp_path) as (objects, admin, stop):
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"]:
            assert get(admin, chart.container(objects)[probe]["httpGet"]["path"])[0] == 200, probe
        assert "ebb_ready 1" in get(admin, "/metrics")[1]
        asking, command = hook(objects, tmp_path / "hook")
        status, told = asking.run(*command)
        print(" ".join(command), told, sep="\n")
        assert status == 0 and re.search('"verdict":"(unique|duplicate|late)"', told), told
        assert stop(within=chart.service_pod(objects)["terminationGracePeriodSeconds"]) == 0


def test_the_helm_test_fails_with_a_token_that_nobody_knows(tmp_path):
    with served("public", tmp_path) as (objects, _, _):
        asking, command = hook(objects, tmp_path / "hook")
        sandbox.fill(tmp_path / "hook" / "secrets", {"token": "another-token-that-nobody-knows"})
        status, told = asking.run(*command)
        assert status == 1 and "401" in told, told


@contextmanager
def served(name, folder):
    """The rendered pod of a value set, running and ready on free ports."""
    http, admin = free_ports(2)
    # No service stands between here and the pod.
    service = {**chart.value_set(name).get("service", {}), "port": http}
    objects = chart.render({**chart.value_set(name), "ports": {"http": http, "admin": admin}, "service": service})
    with open(folder / "log", "w+") as log:
        process, inside = service_sandbox(objects, folder / "pod").start(log)

        def stop(within):
            os.kill(inside, signal.SIGTERM)
            return process.wait(within)

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
        assert process.poll() is None, "the service ended"
        assert time.monotonic() < end, "not ready within 60 s"
        time.sleep(0.05)


def hook(objects, folder):
    """The pod of `helm test`, and what it runs."""
    pod = chart.only(objects, "Pod", "-test")
    asking = sandbox.Sandbox(objects, pod["metadata"]["name"], pod["spec"], folder)
    return asking, pod["spec"]["containers"][0]["command"]


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
