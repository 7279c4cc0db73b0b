"""Crash scripts in the simulation: the same files as in tests/crash, played line by line on virtual time."""

from typing import Any

import pytest

from protocols.lifecycle.pods.hollow import DURATION
from supervisor.chaos.script import parse
from tests.simulation.alone import outcome
from tests.simulation.scripts.script import SCRIPTS, hollow

LYING = next(number for number, path in enumerate(SCRIPTS) if path.stem == "lying-runtime")


def test_script_is_played_to_its_end_after_a_power_cut_in_the_first_commit() -> None:
    found = outcome("scripts", LYING, 40)
    assert found.broken == []
    assert ("machine", "loses power") in [(event.process, event.text) for event in found.events]
    begun = [event.text for event in found.events if event.process == "script"]
    steps = parse(SCRIPTS[LYING].name, SCRIPTS[LYING].read_text()).steps
    assert [step.text for step in steps if step.text not in begun] == []


@pytest.mark.parametrize(
    ("command", "duration"),
    [
        (["sh", "-c", "sleep 0.3"], "300ms"),
        (["sh", "-c", "exec sleep 100000"], None),
        ([], None),
    ],
)
def test_hollow_container_lasts_as_long_as_its_command_sleeps(command: list[str], duration: str | None) -> None:
    container: dict[str, Any] = {"name": "main", "image": "busybox", "command": command}
    made = hollow({"metadata": {"name": "p"}, "spec": {"containers": [container]}})
    assert made["metadata"]["annotations"].get(DURATION) == duration
    assert "command" not in made["spec"]["containers"][0]
