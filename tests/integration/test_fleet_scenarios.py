"""Every scenario that comes along, made small, on one real plane: all its pods run, and it leaves nothing."""

import json

import pytest
import yaml

from actors.fleet.workload.scenario import builtin_scenarios
from tests.support.plane import Plane, until
from tests.support.plane_client import read_object
from tests.support.shared_fixtures import whole_plane

RUN_S = 60.0
SMALL = {"nodes": 2, "seconds": "200ms", "lives": "10ms"}
PER_NODE = 5
"""Enough for a claim of the most pods."""
LEFT = ("/api/v1/pods", *(f"/apis/resource.k8s.io/v1/{kind}" for kind in ("resourceclaims", "deviceclasses")))
TAINTS = "/apis/resource.k8s.io/v1beta2/devicetaintrules"

plane = whole_plane


@pytest.mark.parametrize("name", builtin_scenarios())
def test_pods_of_a_scenario_run_and_leave_nothing(plane: Plane, name: str) -> None:
    written = yaml.safe_load(builtin_scenarios()[name].read_text())
    path = plane.root / f"{name}.yaml"
    small = {**SMALL, "together": min(2, written.get("together", 0)), "perNode": min(PER_NODE, written["perNode"])}
    path.write_text(json.dumps({**written, **small}))
    phases = json.loads(plane.nodeplane("fleet", "run", str(path), "-o", "json", timeout=RUN_S))["phases"]
    assert phases
    assert all(phase["pods"] == phase["running"] > 0 for phase in phases), phases
    until("nothing is left", lambda: all(read_object(plane.root, path).get("items") == [] for path in (*LEFT, TAINTS)))
