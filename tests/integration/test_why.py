"""`nodeplane why` on a real plane: the sentence for pods that wait, crash, end and are evicted, and for plugins."""

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import run_command
from tests.support.plane import Plane, until

GPU, DRIVER = "example.com/gpu", "gpu.example.com"
LINKS = ("sh", "sleep", "env", "grep", "sort")


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("busybox is not installed")
    root = tmp_path_factory.mktemp("image")
    (root / "bin").mkdir()
    shutil.copy(busybox, root / "bin" / "busybox")
    for name in LINKS:
        (root / "bin" / name).symlink_to("busybox")
    with Plane("--images", "imported") as plane:
        plane.nodeplane("image", "import", str(root), "--name", "box", "--name", "busybox")
        yield plane


def pod(name: str, *command: str, metadata: dict[str, Any] | None = None, **container: Any) -> dict[str, Any]:
    spec = {"terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": "box", **container}]}
    spec["containers"][0]["command"] = list(command) or ["sleep", "3600"]  # type: ignore[index]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **(metadata or {})}, "spec": spec}


def why(plane: Plane, target: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(plane.nodeplane("why", target, "-o", "json"))
    return found


def steps(plane: Plane, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(plane.nodeplane("trace", f"pod/{name}", "-o", "json"))["spans"]
    return found


def becomes(plane: Plane, target: str, state: str, *words: str) -> dict[str, Any]:
    """Ask until the diagnosis is this one; return it."""
    seen: list[dict[str, Any]] = []

    def holds() -> bool:
        seen.append(why(plane, target))
        return seen[-1]["state"] == state and all(word in seen[-1]["reason"] for word in words)

    until(f"{target} is {state}: {words}", holds, 60, every=1.0)
    return seen[-1]


def test_pod_without_devices_names_the_resource_and_the_plugin_that_is_away(plane: Plane) -> None:
    plane.apply(pod("lacks", resources={"limits": {GPU: 1}}))
    becomes(plane, "pod/lacks", "pending", f"Insufficient {GPU}", f"no plugin has registered {GPU}")
    plugin = plane.plugin(devices=1)
    plane.pod_ready("lacks")
    assert why(plane, f"plugin/{GPU}")["state"] == "serves"
    held = why(plane, f"device/{GPU}/gpu-0")
    assert (held["state"], "pod default/lacks holds it" in held["reason"]) == ("held", True)
    plugin.send_signal(signal.SIGKILL)
    becomes(plane, f"plugin/{GPU}", "gone", "served until", "no Register since")
    becomes(plane, "pod/lacks", "running on a broken device", "gpu-0 is Unknown")
    plane.apply(pod("away", resources={"limits": {GPU: 1}}))
    becomes(plane, "pod/away", "pending", f"Insufficient {GPU}", "served until")


def test_crash_loop_names_exit_code_and_last_lines(plane: Plane) -> None:
    plane.apply(pod("crash", "sh", "-c", "sleep 4; echo no licence; exit 3"))
    plane.pod_ready("crash")
    plane.kubectl("label", "pod", "crash", "mode=fast")
    found = becomes(plane, "pod/crash", "restarted", "ended with exit code 3")
    changed = "before its end: kubernetes-admin changed metadata.labels.mode (patch by apiserver-0)"
    assert any(line.endswith(changed) for line in found["evidence"]), found
    found = becomes(plane, "pod/crash", "crash loop", "ended with exit code 3")
    assert "log of main: no licence" in found["evidence"]
    text = plane.nodeplane("why", "crash")
    assert text.startswith("pod/default/crash: crash loop: container main ended with exit code 3")

    def back_offs() -> list[dict[str, Any]]:
        return [step for step in steps(plane, "crash") if step["name"] == "back-off"]

    waited = until("a back-off is over", back_offs, 90, every=2.0)[0]
    assert waited["attributes"] == {"container": "main"}
    assert waited["duration_ns"] > 8_000_000_000


def test_missing_image_and_failing_probe_are_named(plane: Plane) -> None:
    plane.apply(pod("noimage", image="registry.invalid/nope:1"))
    probe = {"exec": {"command": ["sh", "-c", "echo no model; exit 1"]}, "periodSeconds": 1}
    plane.apply(pod("unready", readinessProbe=probe))
    becomes(plane, "pod/noimage", "waiting for its image", "registry.invalid/nope:1", "was not imported")
    becomes(plane, "pod/unready", "not ready", "readiness probe (exec sh -c", "no model")


def test_missing_volume_is_named_and_its_wait_is_a_step(plane: Plane) -> None:
    made = pod("volume", volumeMounts=[{"name": "c", "mountPath": "/c"}])
    made["spec"]["volumes"] = [{"name": "c", "configMap": {"name": "later"}}]
    plane.apply(made)
    becomes(plane, "pod/volume", "waiting for its volumes", 'configmap "later" not found')
    plane.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "later"}, "data": {"a": "b"}})
    plane.pod_ready("volume", 120)
    assert [step["actor"] for step in steps(plane, "volume") if step["name"] == "wait for volumes"] == ["podworker"]


def test_run_of_an_init_container_is_a_step(plane: Plane) -> None:
    made = pod("prepared")
    made["spec"]["initContainers"] = [{"name": "prep", "image": "box", "command": ["sleep", "2"]}]
    plane.apply(made)
    plane.pod_ready("prepared")
    found = next(step for step in steps(plane, "prepared") if step["name"] == "wait for init container")
    assert (found["attributes"], found["duration_ns"] > 1_900_000_000) == ({"container": "prep"}, True)
    assert any("'wait for init container' of podworker (prep)" in each for each in why(plane, "prepared")["evidence"])


def test_finalizer_and_evicting_taint_are_named(plane: Plane) -> None:
    plane.apply(pod("kept", metadata={"finalizers": ["example.com/keep"]}))
    plane.pod_ready("kept")
    plane.delete("pod", "kept", wait=False)
    becomes(plane, "pod/kept", "terminating", "nothing of it runs", "held by finalizer example.com/keep (set by")
    plane.start("dra-driver", "--driver", DRIVER, "--devices", "1", log="driver.log")
    plane.apply(Path("examples/gpu-claim.yaml"))
    plane.pod_ready("gpu-claim")
    assert "gpu-claim" in why(plane, f"claim/{claim_of(plane)}")["reason"]
    node = plane.list("node")[0]["metadata"]["name"]
    held = why(plane, f"device/{DRIVER}/{node}/gpu-0")
    assert (held["state"], f"claim default/{claim_of(plane)} (pod gpu-claim) holds it" in held["reason"]) == (
        "held",
        True,
    )
    assert why(plane, f"plugin/{DRIVER}")["state"] == "serves"
    taint = {"key": "example.com/burnt", "effect": "NoExecute"}
    spec = {"devices": {"priority": 7, "filter": {"driver": DRIVER}, "taints": [taint]}}
    patch = {"apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourceSlicePatch", "metadata": {"name": "burnt"}}
    plane.apply({**patch, "spec": spec})
    becomes(plane, "pod/gpu-claim", "gone", "taint example.com/burnt:NoExecute", "patch burnt (priority 7)")


def claim_of(plane: Plane) -> str:
    return str(plane.get("pod", "gpu-claim")["status"]["resourceClaimStatuses"][0]["resourceClaimName"])


def test_unknown_names_are_errors_with_the_nearest_name(plane: Plane) -> None:
    plane.apply(pod("alone"))
    wrong = run_command(["why", "pod/alonee"], plane.environment)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "no pod is called 'default/alonee'; did you mean alone?" in wrong.stderr
    assert why(plane, f"node/{plane.list('node')[0]['metadata']['name']}")["state"] == "ready"
