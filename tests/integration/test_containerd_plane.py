"""S17. A whole plane on Debian's containerd: `nodeplane up --runtime unix:///...` runs a pod in a real container."""

import asyncio
import contextlib
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

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "usable")

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


def story(socket: str) -> None:
    with Plane("--runtime", f"unix://{socket}") as plane:
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

    assert mine()
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


def test_a_pod_in_a_real_container() -> None:
    async def whole() -> None:
        async with Containerd() as runtime:
            await runtime.ready()
            await asyncio.to_thread(story, str(runtime.socket))

    asyncio.run(whole())
