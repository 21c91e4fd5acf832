"""Runs a rendered pod locally: the built binary under bubblewrap, as the pod's user, without capabilities, with a read-only
root and only the volumes that the pod mounts. Needs neither an image nor a cluster."""

import json
import os
import subprocess
from functools import cache
from pathlib import Path

import chart

BINARY = Path(os.environ.get("EBB_BINARY", chart.TARGET / "debug" / "ebb")).resolve()
# Contents of the secret files; all others contain a placeholder.
HASH_KEY = "00112233445566778899aabbccddeeff"
TOKEN = "a-token-that-is-long-enough-for-anybody"


@cache
def certificate():
    """A self-signed certificate for the host names of the tests, and its key."""
    folder = chart.TOOLS / "certificate"
    if not (folder / "tls.key").exists():
        folder.mkdir(exist_ok=True)
        host = service_name()
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3650"]
        command += ["-subj", "/CN=ebb", "-addext", f"subjectAltName=DNS:{host}", "-addext", "basicConstraints=critical,CA:FALSE"]
        command += ["-keyout", folder / "tls.key", "-out", folder / "tls.crt"]
        subprocess.run(command, check=True, capture_output=True)
    return (folder / "tls.crt").read_text(), (folder / "tls.key").read_text()


def service_name():
    return f"{chart.RELEASE}-ebb.{chart.NAMESPACE}.svc"


def secret_text(path):
    crt, key = certificate()
    known = {"hash.key": HASH_KEY, "previous.key": HASH_KEY[::-1], "tokens": f"helm read {TOKEN}\n", "token": TOKEN}
    known |= {"http/tls.crt": crt, "http/tls.key": key, "http/ca.crt": crt, "ca.crt": crt, "kafka/ca.crt": crt}
    return known.get(path, f"text-of-{path}")


class Sandbox:
    """One pod. Its volumes are directories below `folder`. Commands may run in it concurrently."""

    def __init__(self, objects, pod_name, pod, folder):
        self.pod, self.name, self.container = pod, pod_name, pod["containers"][0]
        self.options = ["--unshare-user", "--cap-drop", "ALL", "--clearenv"]
        context = pod["securityContext"]
        self.options += ["--uid", str(context["runAsUser"]), "--gid", str(context["runAsGroup"])]
        self.options += ["--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/bin", "/bin"]
        if Path("/lib64").exists():
            self.options += ["--symlink", "usr/lib64", "/lib64"]
        self.options += ["--ro-bind", str(BINARY), "/app/ebb", "--dev", "/dev", "--proc", "/proc"]
        self.hosts(folder)
        self.volumes(objects, folder)
        self.variables()
        if self.container["securityContext"]["readOnlyRootFilesystem"]:
            self.options += ["--remount-ro", "/"]

    def hosts(self, folder):
        """Resolves the name of the service to this machine, as the cluster's DNS would."""
        etc = folder / "etc"
        etc.mkdir(parents=True, exist_ok=True)
        (etc / "hosts").write_text(f"127.0.0.1 localhost {service_name()}\n")
        (etc / "nsswitch.conf").write_text("hosts: files\n")
        for name in ["hosts", "nsswitch.conf"]:
            self.options += ["--ro-bind", str(etc / name), f"/etc/{name}"]

    def volumes(self, objects, folder):
        volumes = {volume["name"]: volume for volume in self.pod.get("volumes", [])}
        for mount in self.container.get("volumeMounts", []):
            volume = volumes.get(mount["name"], {"persistentVolumeClaim": {}})
            directory = folder / mount["name"]
            directory.mkdir(exist_ok=True)
            if "configMap" in volume:
                source = chart.only(objects, "ConfigMap", volume["configMap"]["name"])
                fill(directory, source["data"])
            for source in volume.get("projected", {}).get("sources", []):
                fill(directory, {item["path"]: secret_text(item["path"]) for item in source["secret"]["items"]})
            kind = "--ro-bind" if mount.get("readOnly") else "--bind"
            self.options += [kind, str(directory), mount["mountPath"]]

    def variables(self):
        named = {"PATH": "/app:/usr/bin"}
        for entry in self.container.get("env", []):
            from_field = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            named[entry["name"]] = self.name if from_field == "metadata.name" else entry["value"]
        for name, value in named.items():
            self.options += ["--setenv", name, value]

    def run(self, *command, timeout=60):
        done = subprocess.run(
            ["bwrap", *self.options, "--", *command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout
        )
        return done.returncode, done.stdout + done.stderr

    def start(self, log):
        """Starts the container's command in the background; returns bwrap's process and the pid of the command."""
        reading, writing = os.pipe()
        command = ["bwrap", "--die-with-parent", "--info-fd", str(writing), *self.options, "--", *self.container["command"]]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[writing])
        os.close(writing)
        with os.fdopen(reading) as info:
            pid = json.load(info)["child-pid"]
        return process, pid


def fill(folder, texts):
    for path, text in texts.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        file.write_text(text)
        file.chmod(0o440)
