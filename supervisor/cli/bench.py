"""`nodeplane bench`: measure this machine with tests/bench of a clone, or the copy in an installation."""

import argparse
import subprocess
import sys
from pathlib import Path

import msgspec

PACKAGE = Path(__file__).parents[1]
INSTALLED = PACKAGE / "benches"
"""Directory into which deploy/build.py puts tests/bench and what it needs of tests/support."""
NAMES = (
    "bus", "fan-out", "fan-out.turn", "idle-watch", "latency", "writes", "writes.processes", "list", "large.lists",
    "large.objects", "large.many-objects", "growth", "resume", "resume.certificates", "memory", "etcd", "pleg",
    "pleg-idle", "pleg-idle.many", "imports", "start", "idle", "recovery", "death", "death.busy", "pods", "recording",
    "frontdoor", "devices.allocations", "devices.registration", "fleet", "fleet.dra", "fleet.scale", "health",
    "health.dra", "scheduler", "scheduler.pods", "scheduler.scale", "simulation", "size", "stall", "stall.attacks",
    "testing", "trace", "tracker",
)  # fmt: skip
"""Names of the benches in tests/bench/main.py, which takes a second to import."""


class Measured(msgspec.Struct, frozen=True):
    """A row of a bench."""

    name: str
    value: float | None
    """null: it is missing."""
    unit: str
    floor: float | None
    """The bare baseline, run beside it, in the same unit."""
    target: str
    ok: bool
    """True if the target is met, or there is none."""
    missing: str
    """Why there is no value."""
    ratio: float | None
    """Value by baseline."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("bench", help="measure this machine and print a row a figure")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; all by default")
    parser.add_argument("--short", action="store_true", help="only show that the benches run; targets do not count")
    parser.add_argument("--long", action="store_true", help="also those that take minutes each")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    parser.set_defaults(run=_bench)


def _bench(arguments: argparse.Namespace) -> int:
    command = [sys.executable, "-m", "tests.bench.main", *arguments.names, "-o", arguments.output]
    command += [f"--{flag}" for flag in ("short", "long") if getattr(arguments, flag)]
    return subprocess.run(command, cwd=_tree(), check=False).returncode


def _tree() -> Path:
    return INSTALLED if INSTALLED.is_dir() else PACKAGE.parent
