"""What took longer: `nodeplane trace --diff`."""

from pathlib import Path

import msgspec
import pytest

from protocols.trace import Row
from supervisor.base.errors import UsageError
from supervisor.trace.command import MAX_FILE, JsonTrace, read_trace
from supervisor.trace.compare import Comparison, compare, table

MS = 1_000_000


def row(name: str, start: int, duration: int, depth: int = 0, actor: str = "podworker", **attributes: str) -> Row:
    """Times in milliseconds."""
    return Row(name, actor, start * MS, duration * MS, depth, attributes, 0)


def trace(allocate: int, wait: int = 0, *more: Row) -> list[Row]:
    """Return a start of which Allocate and the time before `sync` take so many milliseconds."""
    then = 11 + allocate + wait
    return [
        row("create", 0, 5, actor="apiserver-0"),
        row("admit", 10, allocate + 1),
        row("Allocate", 10, allocate, 1, "devices", resource="example.com/gpu"),
        *more,
        row("sync", then, 30),
        row("start container", then, 30, 1, container="main"),
    ]


def names(found: Comparison, side: str) -> list[str]:
    """Return the steps that a side lacks."""
    return [pair.name for pair in found.steps if getattr(pair, side) is None and pair.actor]


def test_the_slow_step_is_named_and_not_the_steps_around_it() -> None:
    found = compare("a", trace(4), "b", trace(3204))
    assert found.summary == "B took 3.20 s longer: 3.20 s of it in 'Allocate example.com/gpu' of devices"
    assert found.largest is not None
    assert found.steps[found.largest].name == "Allocate"
    assert "<- largest" in str(table(found)).splitlines()[3]


def test_the_other_order_says_that_a_took_longer() -> None:
    assert compare("a", trace(3204), "b", trace(4)).summary.startswith("A took 3.20 s longer: 3.20 s of it in 'Alloc")


def test_a_gap_without_a_step_is_named_by_the_steps_around_it() -> None:
    found = compare("a", trace(4), "b", trace(4, 8100))
    assert found.summary.startswith("B took 8.10 s longer: 8.10 s of it nothing between 'Allocate' of devices")
    assert found.largest is not None
    assert found.steps[found.largest].actor == ""


def test_a_step_that_one_pod_lacks_stands_behind_the_one_it_follows() -> None:
    wait = row("wait for plugin", 14, 8100, actor="devices", resource="example.com/gpu")
    found = compare("a", trace(4), "b", trace(4, 8110, wait))
    assert "8.10 s of it in 'wait for plugin example.com/gpu' of devices" in found.summary
    assert found.summary.endswith("; A lacks 1 step of the other")
    assert names(found, "a") == ["wait for plugin"]
    order = [pair.name for pair in found.steps if pair.actor]
    assert order.index("wait for plugin") == order.index("Allocate") + 1
    assert "lacks it" in str(table(found))


def test_equal_traces_took_the_same_time() -> None:
    found = compare("a", trace(4), "b", trace(4))
    assert found.summary == "both starts took the same time, 0.00 ms apart"
    assert found.largest is None
    assert compare("a", [], "b", []).steps == []


def test_what_comes_after_the_start_is_compared_only_without_one() -> None:
    died = row("stop container", 9000, 2000)
    started = compare("a", trace(4), "b", [*trace(4), died])
    assert (started.of, names(started, "a")) == ("start", [])
    stuck = compare("a", trace(4)[:3], "b", [*trace(4), died])
    assert (stuck.of, names(stuck, "a")) == ("trace", ["sync", "start container", "stop container"])


def test_steps_of_one_name_are_told_apart_by_place_and_resource() -> None:
    one = [row("Allocate", 0, 1, resource="x/one"), row("store", 2, 1), row("store", 4, 1)]
    two = [row("Allocate", 0, 1, resource="x/two"), row("store", 2, 1)]
    found = compare("a", one, "b", two)
    assert (names(found, "b"), names(found, "a")) == (["Allocate", "store"], ["Allocate"])


def test_texts_of_plugins_cannot_steer_the_terminal() -> None:
    found = compare("a", [], "b", [row("x\x1b[2J", 0, 900, resource="\x1b]0;x\x07")])
    assert "\x1b" not in found.summary
    assert "\x1b" not in str(table(found))


def test_a_saved_trace_is_read_and_anything_else_is_a_usage_error(tmp_path: Path) -> None:
    saved = tmp_path / "a.json"
    saved.write_bytes(msgspec.json.encode(JsonTrace("default/a", ("u",), (), [])))
    assert read_trace(saved).pod == "default/a"
    saved.write_text("{}")
    with pytest.raises(UsageError, match="holds no trace"):
        read_trace(saved)
    for raw in (b'{"pod": ' + b"[" * 100_000, b'{"pod": "\xff"}'):
        saved.write_bytes(raw)
        with pytest.raises(UsageError, match="holds no trace"):
            read_trace(saved)
    with pytest.raises(UsageError, match="cannot read"):
        read_trace(tmp_path / "none.json")
    with saved.open("wb") as file:
        file.truncate(MAX_FILE + 1)
    with pytest.raises(UsageError, match="longer"):
        read_trace(saved)
