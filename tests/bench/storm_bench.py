"""Rows of the resume bench: all watches lose their connections at once, as when a network fails, and come back at the
version they had, while others write.

The floor of the writers is the same writers before, beside as many watches.
"""

import time

from tests.bench.beside import beside, p99
from tests.bench.row import Row
from tests.bench.watch_lab import Peer, resident_kb, settled
from tests.support.apiserver_plane import Plane
from tests.support.plane import until

WRITERS, PAUSE_S = 4, 0.02
"""Clients that write to another namespace, and the pause of each between two writes."""
QUIET_S = 3.0
WRITE_LIMIT_MS, MEMORY_LIMIT = 500.0, 1.1
PATIENCE_S, WITHIN_S = 120.0, 60.0


def storm(plane: Plane, client: Peer, watches: int, told: str) -> list[Row]:
    """The client's watches must not see what the writers write."""
    with beside(plane, WRITERS, 0, PAUSE_S) as before:
        time.sleep(QUIET_S)
    held, had = _memory(plane), client.ask("stats")
    with beside(plane, WRITERS, 0, PAUSE_S) as during:
        lost = time.monotonic()
        client.ask("drop")
        stats = until("all watches are back", lambda: settled(client, watches, 0), PATIENCE_S)
    back, after, refused = stats["last_open"] - lost, _memory_after(plane, held), stats["errors"] - had["errors"]
    floor, worst = p99(before.writes), p99(during.writes)
    limit, allowed = f"<= {WRITE_LIMIT_MS:g} ms", f"<= {MEMORY_LIMIT} x before"
    return [
        Row(f"storm: {watches} watches lost at once are back, {told}", back, "s"),
        Row(f"storm: {WRITERS} writers' p99 meanwhile, {told}", worst, "ms", floor, limit, worst <= WRITE_LIMIT_MS),
        Row(
            f"storm: API servers after, {told}", after / 1024, "MB", held / 1024, allowed, after <= MEMORY_LIMIT * held
        ),
        Row(f"storm: refused, to be listed again, {told}", refused, "", target="0", ok=not refused),
    ]


def _memory(plane: Plane) -> int:
    """In kB, of all API servers."""
    return sum(resident_kb(process.pid) for name, process in plane.processes.items() if name.startswith("apiserver"))


def _memory_after(plane: Plane, held: int) -> int:
    """Once it is low enough; else as it is after WITHIN_S."""
    deadline = time.monotonic() + WITHIN_S
    while _memory(plane) > MEMORY_LIMIT * held and time.monotonic() < deadline:
        time.sleep(0.5)
    return _memory(plane)
