"""Evidence of a failed test: status, devices and events of its plane, and the ends of logs, as texts by name."""

import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from protocols.kube.meta import event_time
from protocols.process.layout import Layout
from supervisor.base.errors import SupervisorError
from supervisor.root.logs import tail
from supervisor.testing.api import Api

REPORTS = {
    "status": ("status",),
    "devices": ("devices",),
    "plugins": ("devices", "--plugins"),
    "drivers": ("devices", "--drivers"),
    "calls": ("calls",),
}
"""Commands whose output is evidence."""
COMMAND_S = 10.0
TAIL, MAX_LINE = 25, 400
"""Last lines of each log, and characters of a line."""
AUDIT = "audit"
"""Logs whose names begin so hold each request, which helps nobody in a report."""
MAX_EVENTS = 200
CHILD = "(-[a-z0-9]+)*"
"""End of the name of an object that a controller made for another one."""


def evidence(where: Layout) -> dict[str, str]:
    """Return the answers of a running plane by name; one that cannot be read says why."""
    with ThreadPoolExecutor(len(REPORTS) + 1) as pool:
        events = pool.submit(_events, where)
        outputs = {name: pool.submit(_output, where, words) for name, words in REPORTS.items()}
        answers = {name: output.result() for name, output in outputs.items()}
        answers["events"] = events.result()
    return answers


def _output(where: Layout, words: tuple[str, ...]) -> str:
    command = [sys.executable, "-P", "-m", "supervisor.cli.main", "--root", str(where.root), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{' '.join(words)}: {error}"
    return done.stdout + done.stderr


def _events(where: Layout) -> str:
    try:
        with Api(where) as api:
            listed = api.get("/api/v1/events")["items"]
    except (OSError, SupervisorError) as error:
        return f"events cannot be read: {error}"
    listed.sort(key=event_time)
    return "\n".join(folded_lines(listed)[-MAX_EVENTS:])


def folded_lines(events: Sequence[dict[str, Any]]) -> list[str]:
    """Return a line per event; those that differ in names of objects and their children only share the last one's.

    A controller replaces a pod that is rejected, again and again: each one has an event of its own.
    """
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for event in events:
        groups.setdefault(_alike(event), []).append(event)
    ordered = sorted(groups.values(), key=lambda group: event_time(group[-1]))
    return [_folded(group) for group in ordered]


def _alike(event: dict[str, Any]) -> tuple[str, ...]:
    about = event.get("involvedObject") or {}
    message = str(event.get("message", ""))
    for name in (about.get("name"), about.get("uid")):
        message = re.sub(re.escape(str(name)) + CHILD, "NAME", message) if name else message
    return str(event.get("type")), str(event.get("reason")), str(about.get("kind")), message


def _folded(group: Sequence[dict[str, Any]]) -> str:
    times = sum(int(event.get("count") or (event.get("series") or {}).get("count") or 1) for event in group)
    objects = len({str((event.get("involvedObject") or {}).get("name")) for event in group})
    more = f", {objects} objects" if objects > 1 else ""
    return event_line(group[-1]) + (f"  ({times} times{more})" if times > 1 else "")


def event_line(event: dict[str, object]) -> str:
    """Return type, reason, object and message of an event."""
    involved = event.get("involvedObject")
    about = involved if isinstance(involved, dict) else {}
    what = f"{about.get('kind', '').lower()}/{about.get('namespace', '')}/{about.get('name', '')}"
    return f"{event.get('type', '')}  {event.get('reason', '')}  {what}  {event.get('message', '')}"


def log_tails(logs: Path) -> dict[str, str]:
    """Return the last lines of every log that has any, under names such as `log devices`."""
    tails = {}
    for path in sorted(logs.glob("*.log")):
        if path.name.startswith(AUDIT):
            continue
        if lines := [line[:MAX_LINE] for line in tail(path, TAIL)]:
            tails[f"log {path.stem}"] = "\n".join(lines)
    return tails
