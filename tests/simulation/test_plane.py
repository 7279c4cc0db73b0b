"""A plane in the simulation: pods that a user creates are scheduled and run with devices on both nodes."""

from pathlib import Path

from tests.simulation.alone import outcome


def test_plane_without_faults_runs_pods_on_both_nodes(tmp_path: Path) -> None:
    (tmp_path / "none.json").write_text("[]")
    found = outcome("plane", 2, 10, "--faults", str(tmp_path / "none.json"))
    assert found.broken == []
    assert found.counts["starts"] >= found.counts["pods"] / 2
    given = [(event.process, event.text) for event in found.events]
    for plugin in ("n1.plugin-gpu", "n2.plugin-gpu"):
        assert any(process == plugin and "allocated gpu" in text for process, text in given)
