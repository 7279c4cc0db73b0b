"""Every scenario that comes along, made small, on one real plane: all its pods run, and it leaves nothing."""

import json

import pytest
import yaml

from actors.fleet.workload.scenario import builtin_scenarios
from tests.support.plane import Plane, until
from tests.support.shared_fixtures import whole_plane

NODES, RUN_S = 2, 60.0
SMALL = {"nodes": NODES, "seconds": "500ms", "lives": "10ms"}

plane = whole_plane


@pytest.mark.parametrize("name", builtin_scenarios())
def test_pods_of_a_scenario_run_and_leave_nothing(plane: Plane, name: str) -> None:
    written = yaml.safe_load(builtin_scenarios()[name].read_text())
    path = plane.root / f"{name}.yaml"
    path.write_text(json.dumps({**written, **SMALL, "together": min(2, written.get("together", 0))}))
    phases = json.loads(plane.nodeplane("fleet", "run", str(path), "-o", "json", timeout=RUN_S))["phases"]
    assert phases
    assert all(phase["pods"] == phase["running"] > 0 for phase in phases), phases
    kinds = "pods,resourceclaims,deviceclasses,devicetaintrules"
    until("nothing is left", lambda: not plane.kubectl("get", kinds, "-A", "-o", "name"), every=0.2)
