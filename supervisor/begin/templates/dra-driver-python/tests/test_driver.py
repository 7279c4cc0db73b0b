"""The driver on a node: `pytest` starts the node, pytest-nodeplane gives it as the fixture `node`."""

import sys
from pathlib import Path

from pytest_nodeplane import Node, Process

PROGRAM = Path(__file__).parents[1] / "driver.py"
DRIVER = "gpu.example.com"
POD = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec: {selectors: [{cel: {expression: device.driver == "gpu.example.com"}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: one}
spec: {devices: {requests: [{name: device, exactly: {deviceClassName: gpu.example.com}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: user}
spec:
  terminationGracePeriodSeconds: 0
  resourceClaims: [{name: device, resourceClaimName: one}]
  containers:
    - {name: main, image: any, command: [sleep, infinity], resources: {claims: [{name: device}]}}
"""


def start(node: Node) -> Process:
    driver = node.run(sys.executable, str(PROGRAM))
    node.until(f"{DRIVER} has registered", lambda: f"registered {DRIVER}" in driver.output)
    return driver


def cdi_files(node: Node) -> list[Path]:
    return sorted(Path(node.environment["CDI_ROOT"]).glob(f"{DRIVER}-*.json"))


def test_pod_gets_the_device_of_its_claim(node: Node) -> None:
    start(node)
    node.apply(POD)
    node.wait("user").running()
    [row] = node.claim_devices
    assert row.device.startswith(f"{DRIVER}/{node.name}/device-")
    assert len(cdi_files(node)) == 1
    node.delete("v1", "Pod", "user", grace_s=0)
    node.until("the claim is unprepared", lambda: cdi_files(node) == [])


def test_claim_is_prepared_again_with_the_same_answer(node: Node) -> None:
    driver = start(node)
    node.apply(POD)
    node.wait("user").running()
    first = node.prepare(DRIVER, "one")
    assert node.prepare(DRIVER, "one") == first
    driver.stop()
    start(node)
    assert node.prepare(DRIVER, "one") == first
