"""Parts of the scripts of device plugins and of DRA drivers: times, faults, records to begin with, and their YAML."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from protocols.errors import NodeplaneError
from protocols.messages.calls import CallRecord

DELAY_S = 0.1
"""Shorter calls are played without a delay."""
HANG_S = 1.0
"""A call in progress for longer is played as a hang."""
SAME_DEATH_S = 1.0
"""A call and the stream that fail within this time are one death."""
TIMEOUT_S = 30.0
"""Timeout of health reports that name none, as kubelet and scripts without `healthTimeout` have it."""
WEEK_NS = 7 * 24 * 3600 * 10**9
DEAD, LATE, WELL = "UNAVAILABLE", "DEADLINE_EXCEEDED", "OK"

DEVICES_ROOM, ROOM, CALLS_ROOM = 700 << 10, 100 << 10, 20 << 10
"""Bytes as JSON for devices, for steps and for answers, for the faults of a method; a script has a mebibyte at most."""
MOST_STEPS = 10_000

T = TypeVar("T")
Script = dict[str, Any]
Fault = dict[str, Any]
Step = dict[str, Any]


class NothingToCapture(NodeplaneError):
    """Raised when the record holds no registration of a device plugin with a list of devices, or of a DRA driver."""


@dataclass
class Captured:
    """A script with what it leaves out, for the comments at its beginning."""

    script: Script
    omitted: int
    """Devices, claims and characters that the record or the script does not hold."""
    omitted_are: str
    """Their kinds and where they are missing, as the rest of a sentence."""
    command: str
    """The command that plays the script."""
    notes: tuple[str, ...]
    """Sentences about what the script holds."""


def script_text(found: Captured) -> str:
    """Return the script with comments that say what it holds."""
    import yaml  # slow to load, and few commands write it

    now = datetime.now(UTC).isoformat(timespec="seconds")
    lines = [f"# Captured at {now}; play it with: nodeplane {found.command} --script FILE"]
    lines += [f"# {note}" for note in notes(found)]
    body = yaml.safe_dump(found.script, sort_keys=False, width=120, default_flow_style=None, allow_unicode=True)
    return "\n".join(lines) + "\n" + body


def notes(found: Captured) -> list[str]:
    """Return what a reader of the script has to know."""
    return [*found.notes, *([left_out(found)] if found.omitted else [])]


def left_out(found: Captured) -> str:
    """Say that the record is shorter than what was sent."""
    return f"{found.omitted} {found.omitted_are}"


def since(records: Sequence[CallRecord], time_ns: int, registers: Callable[[CallRecord], bool]) -> list[CallRecord]:
    """Return the records in order, from the last registration before a time on; a week at most, as a script can be."""
    ordered = sorted(records, key=lambda record: record.began_ns)
    cut = max(time_ns, ordered[-1].began_ns - WEEK_NS) if ordered else 0
    before = [at for at, each in enumerate(ordered) if registers(each) and each.began_ns <= cut]
    return ordered[before[-1] :] if before else ordered


def error_of(record: CallRecord, start: str = "") -> Fault:
    """Return the error of a call, or of a stream's end whose text has a `start` of the node's own."""
    text = re.sub(r"^rpc error: code = \w+ desc = ", "", record.error.removeprefix(start))
    return {"error": text or record.status, "code": record.status}


def seconds_text(seconds: float) -> str:
    """Return a time as scripts write it, in tenths of a second."""
    return f"{round(seconds, 1):g}s"


def time_of(moment_ns: int, zero_ns: int) -> str:
    """Return the time of a step."""
    return seconds_text(min(WEEK_NS, max(0, moment_ns - zero_ns)) / 1e9)


def within(items: list[T], most: int) -> list[T]:
    """Return the first items that have at most so many bytes as JSON."""
    for at, item in enumerate(items):
        most -= len(json.dumps(item))
        if most < 0:
            return items[:at]
    return items


def fitted(script: Script) -> tuple[Script, int]:
    """Return as much of a script as can be played, and how many devices, steps, faults and answers were left out."""
    calls: dict[str, Any] = script.get("calls", {})
    answers: dict[str, Any] = script.get("answers", {})
    shorter: dict[str, Any] = {
        "devices": within(script["devices"], DEVICES_ROOM),
        "answers": dict(within(list(answers.items()), ROOM)),
        "calls": {name: within(each, CALLS_ROOM) if isinstance(each, list) else each for name, each in calls.items()},
        "steps": within(script.get("steps", []), ROOM)[:MOST_STEPS],
    }
    trimmed: Script = {name: shorter.get(name, value) for name, value in script.items()}
    omitted = sum(len(script[name]) - len(trimmed[name]) for name in ("devices", "answers", "steps") if name in script)
    return trimmed, omitted + sum(len(each) - len(trimmed["calls"][name]) for name, each in calls.items())


def by_time(steps: Iterable[Step]) -> list[Step]:
    """Return steps in the order of their times; those of one time in the order given."""
    return sorted(steps, key=lambda step: float(step["at"].removesuffix("s")))
