"""A node in the simulation: pods run to their end without a fault, and with some that are chosen."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.simulation.alone import outcome
from tests.simulation.model import Fault
from tests.simulation.node.oracle import NO_DEVICES, Oracle


def test_node_without_faults_runs_pods_with_devices(tmp_path: Path) -> None:
    (tmp_path / "none.json").write_text("[]")
    found = outcome("node", 1, 10.0, "--faults", str(tmp_path / "none.json"))
    assert found.broken == []
    assert found.counts["starts"] > 0
    assert found.counts["agent_events"] > 0
    assert any("allocated gpu" in event.text for event in found.events)
    assert found.faults == []


@pytest.mark.scenario("S10", "S12")
def test_slow_consumer_and_steps_of_the_clock_lose_no_status(tmp_path: Path) -> None:
    slow = [Fault(at, "pause", "podworker", 0.6) for at in (2.0, 7.0)]
    steps = [Fault(at, "clock", "runtime", value) for at, value in ((3.0, 0.99), (5.0, 0.35), (8.0, 0.5))]
    (tmp_path / "faults.json").write_bytes(msgspec.json.encode([*slow, *steps]))
    found = outcome("node", 2, 10.0, "--faults", str(tmp_path / "faults.json"))
    assert len(found.faults) == 5
    assert found.counts["starts"] > 0
    assert found.broken == []


@pytest.mark.parametrize(("early", "reason", "broken"), [(True, NO_DEVICES, 0), (False, NO_DEVICES, 1), (True, "", 1)])
def test_pod_from_before_its_resource_may_wait_for_devices_as_in_kubelet(early: bool, reason: str, broken: int) -> None:
    message = f"{reason} uid-1, container main, resource example.com/nic"
    state = {"waiting": {"reason": "CreateContainerConfigError", "message": message}}
    pod = {
        "metadata": {"name": "pod-1", "uid": "uid-1"},
        "spec": {"containers": [{"resources": {"limits": {"cpu": "1", "example.com/nic": "1"}}}]},
        "status": {"phase": "Pending", "containerStatuses": [{"state": state}]},
    }
    node: Any = SimpleNamespace(world=None, witness=SimpleNamespace(ledger=dict, knew=lambda resource, uid: not early))
    assert len(list(Oracle(node, [pod])._converged_pods())) == broken
