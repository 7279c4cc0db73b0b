"""What is over stays over, whatever the node has lost meanwhile."""

import time

import pytest

from tests.support.plane import Plane, stop, until
from tests.support.witnesses import pod, with_devices

LOOKED_AT_S = 2.5


@pytest.mark.scenario("S23")
def test_a_pod_that_succeeded_stays_so_without_its_plugin() -> None:
    """A finalizer keeps it; its plugin is gone, and everybody on the node is restarted."""
    done = pod("done", "exit 0", devices=2, restartPolicy="Never")
    done["metadata"]["finalizers"] = ["example.com/keep"]
    with Plane() as plane:
        with_devices(plane).apply(done)
        until("it succeeded", lambda: plane.get("pod", "done").get("status", {}).get("phase") == "Succeeded")
        stop(plane.plugins[0])
        for actor in ("devices", "podworker", "pleg", "runtime"):
            plane.kill(actor)
        plane.settled()
        deadline = time.monotonic() + LOOKED_AT_S
        while time.monotonic() < deadline:
            assert plane.get("pod", "done")["status"]["phase"] == "Succeeded"
            time.sleep(0.2)
        assert "done" not in plane.nodeplane("devices"), "it holds no device any more"
        plane.kubectl("delete", "pod", "done", "--wait=false")
        plane.kubectl("patch", "pod", "done", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        until("the pod is gone", lambda: not plane.get("pod", "done"))
