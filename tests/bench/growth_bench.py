"""What an event costs with few and with many objects stored: it should not know the difference."""

from tests.bench.row import Row
from tests.bench.watch_lab import (
    configmap,
    cpu_seconds,
    create_all,
    lab_plane,
    put_all,
    received,
    until_applied,
    watches,
)
from tests.bench.watch_line import Options
from tests.support.apiserver_plane import Plane

FEW, MANY = 1_000, 50_000
WATCHERS, EVENTS, RATE, ROUNDS = 100, 400, 100.0, 3
LIMIT = 1.15
PATH = "/api/v1/namespaces/default/pods"
PARTS = {"apiserver": ("apiserver-0",), "store and watchcache": ("store", "watchcache")}


def run() -> list[Row]:
    """Two planes take turns, and of each the least counts: what else the machine does meanwhile only adds."""
    with lab_plane() as small, lab_plane() as large:
        _fill(small, FEW)
        _fill(large, MANY)
        rounds = [(_round(small), _round(large)) for _ in range(ROUNDS)]
    return [_row(part, min(few[part] for few, _ in rounds), min(many[part] for _, many in rounds)) for part in PARTS]


def _row(part: str, few: float, many: float) -> Row:
    name = f"growth: CPU per event, {MANY // 1000}k objects, {part}"
    return Row(name, many, "us", few, f"<= {LIMIT} x {FEW // 1000}k", many <= LIMIT * few)


def _fill(plane: Plane, count: int) -> None:
    create_all(plane, [(f"/registry/pods/default/p-{n:05}", _pod(f"p-{n:05}")) for n in range(count)])
    until_applied(plane, count)


def _round(plane: Plane) -> dict[str, float]:
    start = put_all(plane, [("/registry/pods/default/p-00000", _pod("p-00000"))])
    pids = {part: [plane.processes[name].pid for name in names] for part, names in PARTS.items()}
    with watches(Options(plane.port, str(plane.settings.layout.pki), [PATH], WATCHERS, start)) as client:
        before = {part: sum(map(cpu_seconds, its)) for part, its in pids.items()}
        changed = [(f"/registry/pods/default/p-{n:05}", _pod(f"p-{n:05}")) for n in range(EVENTS)]
        put_all(plane, changed, RATE)
        received(client, EVENTS * WATCHERS)
        return {part: 1e6 * (sum(map(cpu_seconds, its)) - before[part]) / EVENTS for part, its in pids.items()}


def _pod(name: str) -> bytes:
    return configmap(name).replace(b'"ConfigMap"', b'"Pod"')
