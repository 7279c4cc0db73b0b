"""A node in the simulation: pods run to their end without a fault, and one seed gives one run."""

from pathlib import Path

from tests.simulation.alone import outcome


def test_node_without_faults_runs_pods_with_devices(tmp_path: Path) -> None:
    (tmp_path / "none.json").write_text("[]")
    found = outcome("node", 1, 10.0, "--faults", str(tmp_path / "none.json"))
    assert found.broken == []
    assert found.counts["starts"] > 0
    assert found.counts["agent_events"] > 0
    assert any("allocated gpu" in event.text for event in found.events)
    assert found.faults == []


def test_node_with_one_seed_has_one_trace() -> None:
    first, second = outcome("node", 4, 10.0), outcome("node", 4, 10.0)
    assert first.faults
    assert (first.trace, first.turns, first.broken) == (second.trace, second.turns, second.broken)
    assert first.broken == []
