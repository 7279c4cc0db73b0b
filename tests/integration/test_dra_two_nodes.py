"""S26 on two real nodes: two whole planes on one etcd, a driver on each, equal devices; a patch says which is right."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.etcd_fixture import etcd_binary
from tests.support.etcd_cluster import cluster
from tests.support.plane import Plane, until

DRIVER = "gpu.example.com"
GOLD = 'device.attributes["example.com"].?pool.orValue("") == "gold"'
RESOURCE = "resource.k8s.io/v1"


@pytest.fixture(scope="module")
def nodes() -> Iterator[tuple[Plane, Plane]]:
    """Two planes with a DRA driver each on one etcd."""
    with contextlib.ExitStack() as stack:
        etcd = stack.enter_context(cluster(etcd_binary()))
        one, two = (
            stack.enter_context(Plane("--store", etcd.store, "--node-name", name)) for name in ("node-1", "node-2")
        )
        for plane in (one, two):
            plane.start("dra-driver", "--driver", DRIVER, "--devices", "1", log="driver.log")
        until("both publish", lambda: len(one.list("resourceslice")) == 2)
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": GOLD}}]}}
        selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
        one.apply(thing("DeviceClass", "gpu", {"selectors": selectors}))
        one.apply(thing("ResourceClaimTemplate", "gold", {"spec": {"devices": {"requests": [request]}}}))
        yield one, two


def thing(kind: str, name: str, spec: Any, version: str = RESOURCE) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def pod(name: str) -> dict[str, Any]:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gold"}]
    uses = {"claims": [{"name": "gpu"}]}
    container = {"name": "main", "image": "busybox", "command": ["sleep", "1000"], "resources": uses}
    spec = {"terminationGracePeriodSeconds": 0, "resourceClaims": claims, "containers": [container]}
    return thing("Pod", name, spec, "v1")


def message(plane: Plane, name: str) -> str:
    conditions = plane.get("pod", name).get("status", {}).get("conditions") or ()
    return next((str(each.get("message")) for each in conditions if each["type"] == "PodScheduled"), "")


@pytest.mark.scenario("S26")
def test_a_pod_lands_where_the_patch_says(nodes: tuple[Plane, Plane]) -> None:
    one, two = nodes
    one.apply(pod("p"))
    until("it waits", lambda: "0/2 nodes are available: 2 cannot allocate all claims." in message(one, "p"))
    attributes = {"example.com/pool": {"string": "gold"}}
    devices = {"filter": {"pool": "node-2"}, "attributes": attributes}
    two.apply(thing("ResourceSlicePatch", "gold", {"devices": devices}, "resource.k8s.io/v1alpha3"))
    one.pod_ready("p")
    assert one.get("pod", "p")["spec"]["nodeName"] == "node-2"
    (claim,) = json.loads(two.kubectl("get", "resourceclaims", "-o", "json"))["items"]
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert result["pool"] == "node-2"
    devices["filter"] = {"pool": "node-1"}
    one.apply(thing("ResourceSlicePatch", "gold", {"devices": devices}, "resource.k8s.io/v1alpha3"))
    two.apply(pod("q"))
    one.pod_ready("q")
    assert one.get("pod", "q")["spec"]["nodeName"] == "node-1"
    assert one.get("pod", "p")["status"]["phase"] == "Running", "what runs is left alone"
