"""Pods as people write them, on a whole plane: environment, volumes, probes, hooks, messages, deadlines."""

import base64
import json
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from actors.runtime.spec.isolation import namespaces_allowed
from protocols.kube.meta import Object, uid_of
from tests.support.plane import Plane, until
from tests.support.shared_fixtures import whole_plane

MEASURED = (
    "pod_start_duration_seconds_count",
    "pod_worker_start_duration_seconds_count",
    "pod_status_sync_duration_seconds_count",
    'pod_worker_duration_seconds_count{operation_type="create"}',
)
root_only = pytest.mark.skipif(not namespaces_allowed(), reason="mounts at their places need root")

plane = whole_plane


def pod(name: str, *containers: Object, inits: Iterable[Object] = (), **spec: Any) -> Object:
    full = {"terminationGracePeriodSeconds": 2, "containers": list(containers), **spec}
    if inits:
        full["initContainers"] = list(inits)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": full}


def shell(name: str, script: str, **more: Any) -> Object:
    return {"name": name, "image": "busybox:1", "command": ["sh", "-c", script], **more}


def entry(plane: Plane, name: str, container: str = "a") -> Object:
    statuses = plane.get("pod", name).get("status", {}).get("containerStatuses", ())
    return next((status for status in statuses if status["name"] == container), {})


def waiting(plane: Plane, name: str) -> Any:
    return entry(plane, name).get("state", {}).get("waiting", {})


def log_of(plane: Plane, name: str, attempt: int = 0) -> str:
    files = list((plane.root / "pods-logs").glob(f"default_{name}_*/a/{attempt}.log"))
    return files[0].read_text() if files else ""


def log_says(plane: Plane, name: str, text: str) -> None:
    until(f"{text!r} in the log of {name}", lambda: text in log_of(plane, name))


def event_says(plane: Plane, name: str, reason: str) -> str:
    found = until(f"event {reason} of {name}", lambda: plane.events(name, reason))
    return " ".join(event["message"] for event in found)


def config_map(name: str, **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def secret(name: str, **data: str) -> Object:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": encoded}


def test_an_environment_waits_for_what_it_names(plane: Plane) -> None:
    env = [
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "late", "key": "password"}}},
        {"name": "MILLIS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
    ]
    sources = [{"prefix": "C_", "configMapRef": {"name": "conf"}}]
    limits = {"limits": {"cpu": "250m"}}
    plane.apply(config_map("conf", key="value"))
    plane.apply(
        pod("env", shell("a", "echo $PASSWORD-$MILLIS-$C_key; sleep 60", env=env, envFrom=sources, resources=limits))
    )
    refused = lambda: [w for w in [waiting(plane, "env")] if w.get("reason") == "CreateContainerConfigError"]  # noqa: E731
    assert 'secret "late" not found' in until("config error", refused, every=0.2)[0]["message"]
    plane.apply(secret("late", password="pw"))
    plane.kubectl("annotate", "pod", "env", "try=now")
    plane.pod_ready("env", 40)
    log_says(plane, "env", "pw-250-value")
    plane.delete("pod", "env", wait=False)


@root_only
def test_volumes_of_every_kind(plane: Plane, tmp_path: Path) -> None:
    projected = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}},
        {"configMap": {"name": "files", "items": [{"key": "k", "path": "sub/k"}]}},
        {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    ]
    volumes = [
        {"name": "empty", "emptyDir": {}},
        {"name": "config", "configMap": {"name": "files", "defaultMode": 0o400}},
        {"name": "keys", "secret": {"secretName": "keys"}},
        {"name": "all", "projected": {"sources": projected}},
        {"name": "host", "hostPath": {"path": str(tmp_path), "type": "Directory"}},
    ]
    base = plane.root / "mounts"
    names = ("empty", "config", "keys", "all", "host")
    mounts = [{"name": name, "mountPath": f"{base}/{name}"} for name in names]
    mounts.append({"name": "config", "mountPath": f"{base}/one", "subPath": "k"})
    script = (
        f"cd {base}; echo x > empty/x; cp empty/x host/x; stat -Lc %a config/k; "
        "cat config/k keys/password one all/sub/k;"
        "wc -c < all/token; cat all/labels; echo; sleep 60"
    )
    plane.apply(pod("volumes", shell("a", script, volumeMounts=mounts), volumes=volumes))
    until("wait for the sources", lambda: "configmap" in waiting(plane, "volumes").get("message", ""), every=0.2)
    assert "files" in event_says(plane, "volumes", "FailedMount")
    plane.apply(config_map("files", k="config "))
    plane.apply(secret("keys", password="secret "))
    plane.pod_ready("volumes")
    log_says(plane, "volumes", "config secret config config")
    log_says(plane, "volumes", 'app="volumes"')
    assert "F 400\n" in log_of(plane, "volumes")
    assert (tmp_path / "x").read_text() == "x\n"
    directory = plane.root / "pods" / plane.get("pod", "volumes")["metadata"]["uid"]
    assert directory.is_dir()
    plane.delete("pod", "volumes")
    until("the volumes are gone", lambda: not directory.exists())
    assert (tmp_path / "x").exists()


def test_probes_hooks_and_last_words(plane: Plane, tmp_path: Path) -> None:
    """Not ready until a file is there; killed when another goes; its preStop hook and its message are seen."""
    ready, alive, stopped = (tmp_path / name for name in ("ready", "alive", "stopped"))
    alive.touch()

    def probe(path: Path) -> Object:
        return {
            "exec": {"command": ["test", "-e", str(path)]},
            "periodSeconds": 1,
            "timeoutSeconds": 60,
            "failureThreshold": 1,
        }

    probes = {"readinessProbe": probe(ready), "livenessProbe": probe(alive)}
    hooks = {"preStop": {"exec": {"command": ["sh", "-c", f"echo stopped > {stopped}"]}}}
    script = 'echo "last words" > "$NODEPLANE_MOUNT_DEV_TERMINATION_LOG"; sleep 300'
    plane.apply(pod("probed", shell("a", script, lifecycle=hooks, **probes)))
    until("started", lambda: entry(plane, "probed").get("started"), every=0.2)
    assert "Readiness probe failed" in event_says(plane, "probed", "Unhealthy")
    assert not entry(plane, "probed")["ready"]
    ready.touch()
    plane.pod_ready("probed")
    plane.kill("podworker")
    plane.settled()
    assert entry(plane, "probed")["ready"]
    alive.unlink()
    until("its hook", stopped.exists)
    alive.touch()
    until("restarted", lambda: entry(plane, "probed").get("restartCount") == 1, every=0.2)
    assert stopped.read_text() == "stopped\n"
    assert entry(plane, "probed")["lastState"]["terminated"]["message"] == "last words\n"
    plane.delete("pod", "probed", wait=False)


@root_only
def test_last_words_at_their_usual_place_and_a_deadline(plane: Plane) -> None:
    plane.apply(pod("words", shell("a", "printf bye > /dev/termination-log; exit 3"), restartPolicy="Never"))
    plane.apply(pod("late", shell("a", "sleep 300"), activeDeadlineSeconds=2))
    plane.pod_phase("words", "Failed")
    assert entry(plane, "words")["state"]["terminated"]["message"] == "bye"
    late = plane.pod_phase("late", "Failed")
    assert late["status"]["reason"] == "DeadlineExceeded"
    plane.delete("pod", "words", "late", wait=False)


def test_durations_are_measured(plane: Plane) -> None:
    plane.apply(pod("timed", shell("a", "sleep 300")))
    plane.pod_ready("timed")
    address = json.loads(plane.nodeplane("status", "-o", "json"))["endpoints"]["metrics"]

    def lacks() -> list[str]:
        with urllib.request.urlopen(address, timeout=30) as answer:
            counts = [line.split() for line in answer.read().decode().splitlines() if "_seconds_count" in line]
        counted = " ".join(name for name, count in counts if float(count))
        return [name for name in MEASURED if f"kubelet_{name}" not in counted]

    until("all of them counted", lambda: not lacks())
    plane.delete("pod", "timed", wait=False)


def test_a_static_pod_has_a_mirror_and_outlives_it(plane: Plane) -> None:
    """From a file, shown in the API; deleting the mirror ends nothing, removing the file ends the pod."""
    directory, uids = plane.root / "kubelet" / "manifests", set()
    node = plane.list("node")[0]["metadata"]["name"]
    name = f"fixed-{node.lower()}"
    (directory / "broken.yaml").write_text("{")
    manifest = pod("fixed", shell("a", "sleep 300"))
    (directory / ".fixed").write_text(json.dumps(manifest))
    (directory / ".fixed").rename(directory / "fixed.json")
    first = plane.pod_ready(name)
    assert first["metadata"]["annotations"]["kubernetes.io/config.source"] == "file"
    id = entry(plane, name)["containerID"]
    plane.delete("pod", name)
    uids.add(first["metadata"]["uid"])
    again = until("a new mirror", lambda: plane.pod_ready(name), every=0.2, good=lambda pod: uid_of(pod) not in uids)
    assert entry(plane, name)["containerID"] == id
    plane.kill("podworker")
    plane.settled()
    assert plane.get("pod", name)["metadata"]["uid"] == again["metadata"]["uid"]
    assert entry(plane, name)["containerID"] == id
    until("the broken one told", lambda: "broken.yaml: not YAML" in str(plane.events()))
    (directory / "fixed.json").rename(directory / ".away")
    (directory / ".away").rename(directory / "fixed.json")
    until("a restart of the file that was away", lambda: entry(plane, name).get("containerID") not in ("", None, id))
    plane.pod_ready(name)
    (directory / "fixed.json").unlink()
    until("the end of the static pod", lambda: not plane.get("pod", name), every=0.2)
