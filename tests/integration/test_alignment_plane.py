"""Exclusive CPUs as a pod sees them, in a whole plane on the machine we are on."""

import os
from pathlib import Path
from typing import Any

import pytest

from protocols.node.cpulist import format_list, parse_list
from tests.support.plane import Plane, until

ALL = sorted(os.sched_getaffinity(0))
REST, LAST = format_list(ALL[:-1]), str(ALL[-1])
ONLINE = Path("/sys/devices/system/cpu/online")
LOOK = "while true; do grep Cpus_allowed_list /proc/self/status; sleep 0.2; done"


def pod(name: str, resources: dict[str, Any]) -> dict[str, Any]:
    container = {"name": "c", "image": "busybox", "command": ["sh", "-c", LOOK], "resources": resources}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 1}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def allowed(plane: Plane, name: str) -> str:
    """What its newest line says: the CPUs its processes may run on."""
    return plane.kubectl("logs", name, "--tail=1", check=False).partition(":")[2].strip()


@pytest.mark.skipif(
    len(ALL) < 2 or frozenset(ALL) != parse_list(ONLINE.read_text()), reason="needs two CPUs, and may use all there are"
)
def test_a_guaranteed_pod_has_its_cpu_for_itself_and_others_get_out_of_its_way() -> None:
    with Plane("--cpu-manager-policy", "static", "--reserved-cpus", REST) as plane:
        plane.apply(pod("shares", {}))
        until("all CPUs", lambda: plane.pod_ready("shares") and allowed(plane, "shares") == format_list(ALL))
        plane.apply(pod("alone", {"limits": {"cpu": "1", "memory": "32Mi"}}))
        until("its own CPU", lambda: plane.pod_ready("alone") and allowed(plane, "alone") == LAST)
        assert plane.kubectl("exec", "alone", "--", "nproc").strip() == "1"
        until("the others moved away", lambda: allowed(plane, "shares") == REST)
        path = "jsonpath={.items[0].status.capacity.cpu} {.items[0].status.allocatable.cpu}"
        until("the node's", lambda: plane.kubectl("get", "nodes", "-o", path) == f"{len(ALL)} 1")
        for actor in ("devices", "podworker", "runtime"):
            plane.kill(actor)
        plane.settled()
        until("all as it was", lambda: (allowed(plane, "alone"), allowed(plane, "shares")) == (LAST, REST))
        plane.delete("pod", "alone")
        until("all CPUs again", lambda: allowed(plane, "shares") == format_list(ALL))
