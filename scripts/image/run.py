"""Runs a built image with runc and sends requests to it: `run.py INSPECTED ROOT`.

User, command, variables, volume and health check are those of the image; the root is read-only and all capabilities are
dropped. Prints a line for each check and fails at the first one that does not pass.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

NAME = f"ebb-check-{os.getpid()}"
TIMEOUT_SECONDS = 60


def check(condition, text):
    if not condition:
        sys.exit(f"image: FAILED: {text}")
    print(f"image: {text}", flush=True)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def bundle(image, root, folder, configuration):
    """Writes the runc bundle that an orchestrator with a restricted security policy would create from the image."""
    subprocess.run(["runc", "spec"], cwd=folder, check=True)
    spec = json.loads((folder / "config.json").read_text())
    uid, gid = (int(part) for part in image["User"].split(":"))
    data = folder / "data"
    data.mkdir()
    os.chown(data, uid, gid)
    spec["root"] = {"path": root, "readonly": True}
    process = spec["process"]
    process["terminal"] = False
    process["user"] = {"uid": uid, "gid": gid}
    process["args"] = image["Entrypoint"] + image["Cmd"]
    process["env"] = image["Env"]
    process["cwd"] = image["WorkingDir"]
    process["noNewPrivileges"] = True
    process["capabilities"] = {kind: [] for kind in ("bounding", "effective", "permitted", "ambient")}
    # Requests come over the host's network, so the container shares it.
    spec["linux"]["namespaces"] = [one for one in spec["linux"]["namespaces"] if one["type"] != "network"]
    (volume,) = image["Volumes"]
    bind = {"type": "bind", "options": ["bind", "nosuid", "nodev"]}
    spec["mounts"] += [
        bind | {"destination": volume, "source": str(data)},
        {"destination": "/etc/ebb/ebb.yaml", "type": "bind", "source": str(configuration), "options": ["bind", "ro"]},
        {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "mode=1777"]},
    ]
    (folder / "config.json").write_text(json.dumps(spec))


def request_json(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, None


def run_container(image, folder):
    started = time.monotonic()
    with open(folder / "log", "wb") as log:
        return subprocess.Popen(["runc", "run", "--bundle", folder, NAME], stdout=log, stderr=log), started


def wait_ready(service, running, folder, started):
    while request_json(f"{service}/readyz")[0] != 200:
        if running.poll() is not None or time.monotonic() - started > TIMEOUT_SECONDS:
            sys.exit(f"image: FAILED: is ready; its log:\n{(folder / 'log').read_text()}")
        time.sleep(0.05)


def execute(*arguments):
    return subprocess.run(["runc", "exec", NAME, *arguments], capture_output=True, text=True)


def check_process():
    state = json.loads(subprocess.run(["runc", "state", NAME], capture_output=True, check=True).stdout)
    status = Path(f"/proc/{state['pid']}/status").read_text().splitlines()
    fields = dict(line.split(":\t", 1) for line in status if ":\t" in line)
    check(set(fields["Uid"].split()) == {"65532"}, f"runs as user {fields['Uid'].split()[0]}")
    check(int(fields["CapEff"], 16) == 0 and int(fields["CapBnd"], 16) == 0, "has no capabilities")
    mounts = Path(f"/proc/{state['pid']}/mounts").read_text().splitlines()
    (options,) = [line.split()[3].split(",") for line in mounts if line.split()[1] == "/"]
    check("ro" in options, "has a read-only root")
    result = execute("/usr/bin/ebb", "demo", "--data-dir", "/etc/ebb/data", "--listen", "127.0.0.1:0")
    check(result.returncode == 1 and "Read-only file system" in result.stderr, "cannot write to the root")
    check(execute("/bin/sh", "-c", "true").returncode != 0, "has no shell")


def check_answers(service):
    decide = f"{service}/v1/streams/clicks/decide"
    click = {"event": {"ip": "10.1.2.3", "ad": 7}, "record": True}
    first, second = request_json(decide, click), request_json(decide, click)
    verdicts = [answer[1]["verdict"] if answer[0] == 200 else answer for answer in (first, second)]
    check(verdicts == ["unique", "duplicate"], f"decides: {verdicts}")


def main(inspected, root):
    image = json.loads(Path(inspected).read_text())["Docker"]["config"]
    labels = image["Labels"]
    check(labels["org.opencontainers.image.title"] == "ebb", f"is labelled: {len(labels)} labels")
    health = image["Healthcheck"]["Test"]
    check(health[0] == "CMD", f"has a health check: {' '.join(health[1:])}")
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        folder.chmod(0o755)
        port = free_port()
        service = f"http://127.0.0.1:{port}"
        configuration = folder / "ebb.yaml"
        configuration.write_text(
            f'data_dir: /var/lib/ebb\nhttp: {{listen: "127.0.0.1:{port}"}}\n'
            "streams: {clicks: {event: {item: [ip, ad]}, dedup: {window: 1h, memory: 1MiB}}}\n"
        )
        bundle(image, root, folder, configuration)
        running, started = run_container(image, folder)
        try:
            wait_ready(service, running, folder, started)
            check(True, f"is ready after {time.monotonic() - started:.1f} s")
            check_process()
            check_answers(service)
            check(execute(*health[1:]).returncode == 0, "passes its health check")
            subprocess.run(["runc", "kill", NAME, "TERM"], check=True)
            check(running.wait(TIMEOUT_SECONDS) == 0, "exits with status 0 on SIGTERM")
        finally:
            if running.poll() is None:
                subprocess.run(["runc", "delete", "--force", NAME], check=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
