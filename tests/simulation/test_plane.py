"""A plane in the simulation: pods that a user creates are scheduled and run with devices on both nodes."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.simulation.alone import outcome
from tests.simulation.control.history import History
from tests.simulation.plane.oracle import _same, just_bound


def test_plane_without_faults_runs_pods_on_both_nodes(tmp_path: Path) -> None:
    (tmp_path / "none.json").write_text("[]")
    found = outcome("plane", 2, 10, "--faults", str(tmp_path / "none.json"))
    assert found.broken == []
    assert found.counts["starts"] >= found.counts["pods"] / 2
    given = [(event.process, event.text) for event in found.events]
    for plugin in ("n1.plugin-gpu", "n2.plugin-gpu"):
        assert any(process == plugin and "allocated gpu" in text for process, text in given)


@pytest.mark.parametrize(("changed_at", "differing"), [(39.9, 0), (38.0, 1)])
def test_informer_may_be_behind_for_a_moment(changed_at: float, differing: int) -> None:
    world = SimpleNamespace(elapsed=40.0)
    history = History(cast("Any", world))
    stored: dict[str, dict[str, Any]] = {"pods": {"default/a": {}}}
    key = b"/registry/pods/default/a"
    history.latest[key], history.changed[key] = (7, b"{}"), changed_at
    informer = SimpleNamespace(items={"default/a": {"metadata": {"resourceVersion": "6"}}})
    world.processes = {"user": SimpleNamespace(notes={"held": {"pods": informer}})}
    profile = SimpleNamespace(world=world, control=SimpleNamespace(history=history))
    assert len([*_same(cast("Any", profile), stored)]) == differing


@pytest.mark.parametrize(
    ("changed_at", "status", "excused"), [(39.9, {}, True), (30.0, {}, False), (39.9, {"startTime": "now"}, False)]
)
def test_pod_that_was_bound_a_moment_ago_may_not_run_yet(
    changed_at: float, status: dict[str, Any], excused: bool
) -> None:
    history = History(cast("Any", SimpleNamespace(elapsed=40.0)))
    history.changed[b"/registry/pods/default/a"] = changed_at
    pod = {"metadata": {"name": "a", "uid": "u1"}, "status": {"phase": "Pending", **status}}
    assert just_bound(history, [pod]) == ({"u1"} if excused else set())
