"""A whole plane on Debian's containerd: `nodeplane up --runtime unix:///...` runs a pod in a real container."""

import asyncio

import pytest

from tests.support.containerd import BUSYBOX, Containerd, why_not
from tests.support.plane import Plane, until

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "usable")

POD = {
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
                "command": ["sh", "-c", "echo from a container; sleep 2; exit 5"],
            }
        ],
    },
}


def story(socket: str) -> None:
    with Plane("--runtime", f"unix://{socket}") as plane:
        node = plane.status()
        assert "generic" in node["pleg"]["beat"]["note"]
        assert "containerd" in node["cri"]["beat"]["note"]
        plane.apply(POD)
        plane.pod_phase("real", "Running")
        pod = plane.pod_phase("real", "Failed")
        assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 5
        assert pod["status"]["containerStatuses"][0]["containerID"].startswith("containerd://")
        plane.kubectl("delete", "pod", "real")
        until("pod gone", lambda: not plane.get("pod", "real"))


def test_a_pod_in_a_real_container() -> None:
    async def whole() -> None:
        async with Containerd() as runtime:
            await runtime.ready()
            await asyncio.to_thread(story, str(runtime.socket))

    asyncio.run(whole())
