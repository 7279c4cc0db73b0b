"""S17. A whole plane on Debian's containerd: `nodeplane up --runtime unix:///...` runs a pod in a real container."""

import asyncio
import contextlib
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.containerd import BUSYBOX, Containerd, pleg_mode, why_not
from tests.support.mistreat import kill_whole
from tests.support.oracle import parent_of
from tests.support.plane import Plane, until

pytestmark = [pytest.mark.heavy, pytest.mark.skipif(bool(why_not()), reason=why_not() or "usable")]

TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "real"},
    "spec": {
        "hostNetwork": True,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {
                "name": "main",
                "image": BUSYBOX,
                "imagePullPolicy": "Never",
                "command": ["sh", "-c", "echo from a container; trap 'exit 5' USR1; while :; do sleep 0.1; done"],
            }
        ],
    },
}


def story(runtime: Containerd) -> None:
    with Plane("--runtime", f"unix://{runtime.socket}") as plane:
        assert "containerd" in plane.status()["cri"]["beat"]["note"]
        plane.apply(POD)
        plane.pod_phase("real", "Running")
        until("word of the mode", lambda: pleg_mode() in plane.status()["pleg"]["beat"]["note"])
        tell("exit 5")
        pod = plane.pod_phase("real", "Failed")
        assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 5
        assert pod["status"]["containerStatuses"][0]["containerID"].startswith("containerd://")
        plane.kubectl("delete", "pod", "real")
        until("pod gone", lambda: not plane.get("pod", "real"))
        _deleted_at_once(plane)
        _ended_while_the_plane_was_dead(plane)
        _ended_while_the_runtime_hung(plane, runtime)
        _what_cannot_start_and_what_ends_at_once(plane)
        _static(plane)
        _isolated_as_the_embedded_runtime_does(plane)


def _isolated_as_the_embedded_runtime_does(plane: Plane) -> None:
    """The same as test_own_plane asks of the embedded runtime."""
    made = pod("kit", "cat /proc/sys/kernel/shm_rmid_forced /proc/self/status /etc/hosts; exec sleep 600")
    made["spec"] |= {
        "shareProcessNamespace": True,
        "terminationGracePeriodSeconds": 1,
        "securityContext": {"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]},
    }
    plane.apply(made)
    plane.pod_phase("kit", "Running")
    words = "# Kubernetes-managed hosts file (host network).\n"
    until("its words", lambda: words in plane.kubectl("logs", "kit", check=False), every=0.2)
    text = plane.kubectl("logs", "kit")
    assert text.startswith("1\n")
    assert "CapEff:\t00000000a80425fb\n" in text
    assert "\nNSpid:\t1\n" not in text, "pid 1 is the pod's"
    _has_its_token_in_memory(plane, "kit")
    plane.kubectl("delete", "pod", "kit")


def _has_its_token_in_memory(plane: Plane, name: str) -> None:
    """Mounted by podworker, and seen by a runtime that somebody else started."""
    mounts = [line.split() for line in plane.kubectl("exec", name, "--", "cat", "/proc/mounts").splitlines()]
    assert [words[0] for words in mounts if words[1] == TOKEN] == ["tmpfs"]
    assert plane.kubectl("exec", name, "--", "cat", f"{TOKEN}/token")


def pod(name: str, script: str) -> dict[str, Any]:
    (container,) = POD["spec"]["containers"]
    spec = POD["spec"] | {
        "terminationGracePeriodSeconds": 30,
        "containers": [container | {"command": ["sh", "-c", script]}],
    }
    return POD | {"metadata": {"name": name}, "spec": spec}


def tell(word: str) -> None:
    """The container whose script has this word for it ends, and is gone."""
    script = f"trap '{word}' USR1".encode()

    def mine() -> list[int]:
        """But for the children it is about to make something else of."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes()
                if words.startswith(b"sh\0-c\0") and script in words:
                    found.append(int(entry.name))
        return [pid for pid in found if parent_of(pid) not in found]

    def told() -> bool:
        """It may not listen yet."""
        left = mine()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGUSR1)
        return not left

    until("its process", mine)  # a container is running before its program is
    until("its end", told)


def _deleted_at_once(plane: Plane) -> None:
    """S13: a deletion takes as long as the process needs, plus a second or two of generic listing."""
    plane.apply(pod("polite", "trap 'exit 0' TERM; while :; do sleep 0.1; done"))
    plane.pod_phase("polite", "Running")
    began = time.monotonic()
    plane.kubectl("delete", "pod", "polite")
    until("pod gone", lambda: not plane.get("pod", "polite"))
    assert time.monotonic() - began < 25, "the grace was waited for"


def _ended_while_the_plane_was_dead(plane: Plane) -> None:
    """K2: killed right after Running; the container ends by itself; the next life tells it as it was."""
    plane.apply(pod("survivor", "trap 'exit 0' USR1; while :; do sleep 0.1; done"))
    running = plane.pod_phase("survivor", "Running")["status"]["containerStatuses"][0]
    kill_whole(plane)
    tell("exit 0")
    plane.up()
    ended = plane.pod_phase("survivor", "Succeeded")["status"]["containerStatuses"][0]
    assert (ended["containerID"], ended["restartCount"]) == (running["containerID"], 0)
    assert (ended["state"]["terminated"]["reason"], ended["state"]["terminated"]["exitCode"]) == ("Completed", 0)
    plane.kubectl("delete", "pod", "survivor")
    until("pod gone", lambda: not plane.get("pod", "survivor"))


def _ended_while_the_runtime_hung(plane: Plane, runtime: Containerd) -> None:
    """S14: nothing is made of its silence, and what happened meanwhile is told once it answers."""
    plane.apply(pod("unheard", "trap 'exit 4' USR1; while :; do sleep 0.1; done"))
    running = plane.pod_phase("unheard", "Running")["status"]["containerStatuses"][0]
    os.kill(runtime.pid, signal.SIGSTOP)
    try:
        tell("exit 4")
        time.sleep(2)
    finally:
        os.kill(runtime.pid, signal.SIGCONT)
    ended = plane.pod_phase("unheard", "Failed", timeout=90)["status"]["containerStatuses"][0]
    assert (ended["containerID"], ended["restartCount"]) == (running["containerID"], 0)
    assert ended["state"]["terminated"]["exitCode"] == 4


def _what_cannot_start_and_what_ends_at_once(plane: Plane) -> None:
    """S8 and S15."""
    (container,) = POD["spec"]["containers"]
    unstartable = POD["spec"] | {"containers": [container | {"command": ["/no/such/program"]}]}
    plane.apply(POD | {"metadata": {"name": "unstartable"}, "spec": unstartable})
    names = [f"short-{number}" for number in range(5)]
    for number, name in enumerate(names):
        plane.apply(pod(name, f"exit {number}"))
    for number, name in enumerate(names):
        ended = plane.pod_phase(name, "Failed" if number else "Succeeded", timeout=90)["status"]["containerStatuses"][0]
        assert (ended["state"]["terminated"]["exitCode"], ended["restartCount"]) == (number, 0)
    ended = plane.pod_phase("unstartable", "Failed", timeout=90)["status"]["containerStatuses"][0]["state"][
        "terminated"
    ]
    assert (ended["reason"], ended["exitCode"]) == ("StartError", 128)
    plane.kubectl("delete", "pod", "unstartable", "unheard", *names, timeout=90)


def _static(plane: Plane) -> None:
    """S7: whatever happens to its mirror, its container is one and the same."""
    manifest = pod("static", "while :; do sleep 0.1; done")
    path = plane.root / "kubelet" / "manifests" / "static.json"
    path.write_text(json.dumps(manifest | {"spec": manifest["spec"] | {"terminationGracePeriodSeconds": 1}}))

    def mirror() -> dict[str, Any]:
        pods = json.loads(plane.kubectl("get", "pods", "-o", "json"))["items"]
        found = [each for each in pods if each["metadata"]["name"].startswith("static-")]
        return found[0] if found and found[0].get("status", {}).get("phase") == "Running" else {}

    first = until("a mirror that runs", mirror, 60)
    plane.kubectl("delete", "pod", first["metadata"]["name"])
    uid = first["metadata"]["uid"]
    second = until("another", lambda: [each for each in [mirror()] if each and each["metadata"]["uid"] != uid], 60)[0]
    assert [status["containerID"] for status in second["status"]["containerStatuses"]] == [
        status["containerID"] for status in first["status"]["containerStatuses"]
    ]
    path.unlink()
    until("it is gone", lambda: not mirror() and "static-" not in plane.kubectl("get", "pods", "-o", "name"), 60)


async def test_a_pod_in_a_real_container() -> None:
    async with Containerd() as runtime:
        await runtime.ready()
        await asyncio.to_thread(story, runtime)
