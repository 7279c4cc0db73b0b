"""nodeplane top: CPU and memory of every actor, read from /proc."""

import argparse
import os
import time
from pathlib import Path

from protocols.messages.supervisor import PlaneStatus
from supervisor.cli.ask import Asking, ask
from supervisor.cli.flags import layout_from
from supervisor.cli.table import table

TICKS = os.sysconf("SC_CLK_TCK")
SAMPLE_S = 1.0
CLEAR = "\x1b[H\x1b[2J"


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("top", help="CPU and memory", allow_abbrev=False)
    parser.add_argument("what", nargs="?", choices=("actors", "pods"), default="actors", help="default: actors")
    parser.add_argument("--watch", action="store_true", help="go on until Ctrl-C")


def run(args: argparse.Namespace) -> int:
    layout = layout_from(args)
    while True:
        text = ask(layout, of_pods) if args.what == "pods" else sample(ask(layout, Asking.status))
        print(f"{CLEAR}{text}" if args.watch else text, flush=True)
        if not args.watch:
            return 0


def sample(plane: PlaneStatus) -> str:
    """One second's look at every process."""
    actors = {actor.instance: actor.pid for actor in plane.actors if actor.pid}
    pids = {"supervisor": plane.pid, "forkserver": parent_of(next(iter(actors.values()), 0)), **actors}
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    time.sleep(SAMPLE_S)
    rows = [_row(name, pid, before[name]) for name, pid in pids.items()]
    cpu, memory = sum(row[2] for row in rows), sum(row[3] for row in rows)
    shown = [(name, str(pid), f"{use:.1f}", f"{mib:.1f}") for name, pid, use, mib in rows]
    return table(("ACTOR", "PID", "CPU%", "PSS MiB"), [*shown, ("total", "", f"{cpu:.1f}", f"{memory:.1f}")])


async def of_pods(asking: Asking) -> str:
    """One second's look at every running container, whatever runtime has it."""
    from supervisor.cli.top_pods import rows  # loads protobuf

    return table(("NAMESPACE", "POD", "CONTAINER", "CPU%", "MEMORY MiB"), await rows(asking, SAMPLE_S))


def _row(name: str, pid: int, before: float) -> tuple[str, int, float, float]:
    return name, pid, max(0.0, cpu_seconds(pid) - before) / SAMPLE_S * 100, pss_mib(pid)


def parent_of(pid: int) -> int:
    """The process that forked it; 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def cpu_seconds(pid: int) -> float:
    """User and system time of a process; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def pss_mib(pid: int) -> float:
    """Memory with shared pages divided among their users; 0 when it is gone or not ours."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)
