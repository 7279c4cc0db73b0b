"""Run the benches by name and print the table: `python -m tests.bench.main [NAME ...] [-o json] [--short]`.

A bench that raises costs its own rows, which are named as missing. It ends with 1 if a row is missing or misses its
target.
"""

import argparse
import contextlib
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence

from tests.bench import (
    bus_bench,
    devices_bench,
    etcd_bench,
    fanout_bench,
    fleet_bench,
    frontdoor_bench,
    growth_bench,
    health_bench,
    import_bench,
    large_bench,
    list_bench,
    memory_bench,
    plane_bench,
    pleg_bench,
    pleg_idle,
    pods_bench,
    processes_bench,
    recording_bench,
    resume_bench,
    scheduler_bench,
    scheduler_pods_bench,
    scheduler_scale_bench,
    simulation_bench,
    size_bench,
    stall_bench,
    testing_bench,
    trace_bench,
    tracker_bench,
    watch_bench,
    write_bench,
)
from tests.bench.row import Row, Unmeasured, missing
from tests.bench.short import shortened

BENCHES: dict[str, Callable[[], list[Row]]] = {
    "bus": bus_bench.run,
    "fan-out": fanout_bench.fan_out,
    "fan-out.turn": fanout_bench.turn,
    "idle-watch": fanout_bench.idle,
    "latency": watch_bench.run_latency,
    "writes": write_bench.run,
    "writes.processes": processes_bench.run,
    "list": list_bench.run,
    "large.lists": large_bench.lists,
    "large.objects": large_bench.objects,
    "large.many-objects": large_bench.many_objects,
    "growth": growth_bench.run,
    "resume": resume_bench.tokens,
    "resume.certificates": resume_bench.certificates,
    "memory": memory_bench.run,
    "etcd": etcd_bench.run,
    "pleg": pleg_bench.run,
    "pleg-idle": pleg_idle.rows,
    "pleg-idle.many": pleg_idle.crowded,
    "imports": import_bench.run,
    "start": plane_bench.start,
    "idle": plane_bench.idle,
    "recovery": plane_bench.recovery,
    "death": plane_bench.death,
    "death.busy": plane_bench.death_busy,
    "pods": pods_bench.fill,
    "recording": recording_bench.run,
    "frontdoor": frontdoor_bench.run,
    "devices.allocations": devices_bench.allocations,
    "devices.registration": devices_bench.registration,
    "fleet": fleet_bench.run,
    "fleet.dra": fleet_bench.dra,
    "fleet.scale": fleet_bench.scale,
    "health": health_bench.plugins,
    "health.dra": health_bench.drivers,
    "scheduler": scheduler_bench.run,
    "scheduler.pods": scheduler_pods_bench.run,
    "scheduler.scale": scheduler_scale_bench.run,
    "simulation": simulation_bench.run,
    "size": size_bench.run,
    "stall": stall_bench.fairness,
    "stall.attacks": stall_bench.attacks,
    "testing": testing_bench.run,
    "trace": trace_bench.run,
    "tracker": tracker_bench.run,
}
LONG = frozenset({
    "fleet.dra", "fleet.scale", "health.dra", "large.lists", "large.many-objects", "memory", "pleg-idle.many",
    "recording", "resume.certificates", "scheduler.scale", "simulation", "stall.attacks",
})  # fmt: skip
"""Benches that take a minute and more each: they run when they are named, or with --long."""
HEADER = f"{'name':62} {'value':>12} {'unit':8} {'floor':>12} {'ratio':>7} {'target':>14} ok"


REASON = 200
"""Characters of an error in a row."""


def line(row: Row) -> str:
    value = f"{row.value:12.3f}" if row.value is not None else f"{'missing':>12}"
    floor = f"{row.floor:12.3f}" if row.floor is not None else f"{'-':>12}"
    ratio = f"{row.ratio:7.2f}" if row.ratio is not None else f"{'-':>7}"
    ok = "yes" if row.ok else row.missing or "NO"
    return f"{row.name:62} {value} {row.unit:8} {floor} {ratio} {row.target:>14} {ok}"


def announced(names: Sequence[str]) -> Iterator[str]:
    """Yield the names, and show before each how far the benches are: on a terminal a bar, elsewhere a line.

    Both go to standard error. The bar is printed once per bench: a thread that refreshes it would be measured along.
    Elsewhere a line after each says how long it took.
    """
    if not sys.stderr.isatty():
        for done, name in enumerate(names):
            print(f"{done + 1}/{len(names)} {name}", file=sys.stderr, flush=True)
            began = time.monotonic()
            yield name
            print(f"{name} took {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        return
    from rich.console import Console
    from rich.progress_bar import ProgressBar

    console = Console(stderr=True, highlight=False)
    for done, name in enumerate(names):
        console.print(ProgressBar(len(names), done, width=20), f" {done + 1}/{len(names)} {name}", end="\r")
        yield name
    console.file.write("\x1b[2K")  # erase the last bar, should no row have covered it


def rows_of(name: str) -> list[Row]:
    """Run a bench, and add a row with its time. What it raises makes one row, which names the bench and the reason."""
    began = time.monotonic()
    rows = _measured(name)
    return [*rows, Row(f"{name}: time of this bench", time.monotonic() - began, "s")]


def _measured(name: str) -> list[Row]:
    try:
        return BENCHES[name]()
    except Unmeasured as error:
        return [missing(name, str(error))]
    except Exception as error:
        traceback.print_exc()
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return [missing(name, reason[:REASON])]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="nodeplane bench")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(BENCHES)}; all by default")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    parser.add_argument("--short", action="store_true", help="only show that the benches run; targets do not count")
    parser.add_argument("--long", action="store_true", help="also those that take a minute and more each")
    options = parser.parse_args(arguments)
    usual = [name for name in BENCHES if options.long or name not in LONG]
    unknown = set(options.names) - BENCHES.keys()
    if unknown:
        parser.exit(2, f"nodeplane: no bench is called {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}\n")
    rows: list[Row] = []
    try:
        run(options.names or usual, options.output == "table", options.short, rows)
    finally:
        if options.output == "json":
            print(json.dumps([row.as_dict() for row in rows], indent=2), flush=True)
    return judged(rows, options.short)


def run(names: Sequence[str], table: bool, short: bool, rows: list[Row]) -> None:
    """Append the rows of each bench to `rows`, and print them with `table`."""
    if table:
        print(HEADER)
    for name in announced(names):
        with shortened(name) if short else contextlib.nullcontext():
            found = rows_of(name)
        rows += found
        for row in found if table else ():
            print(line(row), flush=True)


def judged(rows: Sequence[Row], short: bool) -> int:
    """Say how many rows failed; return the exit code."""
    lost = sum(bool(row.missing) for row in rows)
    missed = 0 if short else sum(not row.ok for row in rows) - lost
    print(f"{len(rows)} rows: {missed} miss their target, {lost} missing", file=sys.stderr)
    return 1 if missed or lost else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
