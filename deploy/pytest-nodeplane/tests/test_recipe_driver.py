"""Recipes for authors of DRA drivers: where `nodeplane dra-driver` runs, run yours.

The rules are judged by the scripts of `nodeplane conform`; the other test sees what becomes of a pod and its CDI files.
"""

from pathlib import Path

import pytest

from pytest_nodeplane import Conform, Node

DRIVER = "gpu.example.com"
CLAIM = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec: {selectors: [{cel: {expression: device.driver == "gpu.example.com"}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: one-gpu}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: user}
spec:
  terminationGracePeriodSeconds: 0
  resourceClaims: [{name: gpu, resourceClaimName: one-gpu}]
  containers:
    - {name: main, image: any, command: [sleep, infinity], resources: {claims: [{name: gpu}]}}
"""


@pytest.mark.conform("dra", only=["prepare-again", "driver-restarts", "kubelet-restarts"], timeout=20)
def test_driver_obeys_the_rule(conform: Conform) -> None:
    conform("nodeplane", "dra-driver", "--driver", DRIVER, "--devices", "2")


def cdi_files(node: Node) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in node.plane.layout.cdi.glob("*")}


def test_pod_runs_on_and_its_cdi_files_stay_when_driver_and_kubelet_restart(node: Node) -> None:
    driver = node.driver(DRIVER, devices=2)
    node.apply(CLAIM)
    node.wait("user").running()
    before = cdi_files(node)

    driver.stop()
    node.driver(DRIVER, devices=2)
    node.restart_kubelet()
    [device] = node.prepare(DRIVER, "one-gpu")  # as kubelet does for the next sandbox of the pod

    assert cdi_files(node) == before, "preparing the claim again changed the CDI files"
    assert [row.device for row in node.claim_devices] == [f"{DRIVER}/{device.pool}/{device.device}"]
    restarts = node.wait("user").running()["status"]["containerStatuses"][0]["restartCount"]
    assert restarts == 0, "the container was restarted with the kubelet"
