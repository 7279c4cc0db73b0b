"""Lifecycle events between two views of a pod (upstream's generic PLEG table)."""

import pytest

from actors.pleg.state_machine.lifecycle_events import ABSENT, changes


@pytest.mark.parametrize(
    ("old", "new", "types"),
    [
        (ABSENT, "running", ["ContainerStarted"]),
        (ABSENT, "exited", ["ContainerDied"]),
        (ABSENT, "unknown", []),
        ("unknown", "running", ["ContainerStarted"]),
        ("running", "exited", ["ContainerDied"]),
        ("running", "running", []),
        ("exited", ABSENT, ["ContainerRemoved"]),
        ("running", ABSENT, ["ContainerDied", "ContainerRemoved"]),
        ("unknown", ABSENT, ["ContainerDied", "ContainerRemoved"]),
    ],
)
def test_changes_of_one_container_give_events(old: str, new: str, types: list[str]) -> None:
    before = {} if old == ABSENT else {"c": old}
    after = {} if new == ABSENT else {"c": new}
    events = changes("u", before, after)
    assert [event.type for event in events] == types
    assert all((event.uid, event.id) == ("u", "c") for event in events)


def test_changes_deaths_come_before_starts() -> None:
    events = changes("u", {"a": "running"}, {"a": "exited", "b": "running"})
    assert [(event.type, event.id) for event in events] == [("ContainerDied", "a"), ("ContainerStarted", "b")]
