"""nodeplane logs: what actors wrote to ROOT/logs."""

import argparse
import time
from pathlib import Path

from supervisor.cli.flags import layout_from
from supervisor.errors import Usage
from supervisor.root.logs import Tail

LAST = 200
AUDIT = "audit"
"""Who wrote what, for tools rather than eyes: shown when named."""
LOOK_S = 0.25


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("logs", help="show logs", allow_abbrev=False)
    parser.add_argument(
        "actor", nargs="?", help="an actor's name, supervisor, forkserver or audit; default: all actors"
    )
    parser.add_argument("-f", "--follow", action="store_true", help="go on as lines are written")
    parser.add_argument(
        "-n", "--lines", type=int, default=LAST, help=f"lines of each log to begin with (default {LAST})"
    )


def run(args: argparse.Namespace) -> int:
    paths = log_files(layout_from(args).logs, args.actor)
    tails = {path.stem: Tail(path) for path in paths}
    prefix = len(tails) > 1
    _show(tails, prefix, max(0, args.lines))
    while args.follow:
        time.sleep(LOOK_S)
        _show(tails, prefix, None)
    return 0


def log_files(directory: Path, actor: str | None) -> list[Path]:
    """Raises Usage when there is no such log."""
    found = sorted(directory.glob("*.log"))
    if actor is None:
        return [path for path in found if path.stem != AUDIT]
    chosen = [path for path in found if path.stem == actor]
    if not chosen:
        names = ", ".join(path.stem for path in found) or "none yet"
        raise Usage(f"no log of {actor!r} below {directory}; there are: {names}")
    return chosen


def _show(tails: dict[str, Tail], prefix: bool, last: int | None) -> None:
    for name, tail in tails.items():
        lines = tail.lines()
        for line in lines if last is None else lines[max(0, len(lines) - last) :]:
            print(f"{name}: {line}" if prefix else line, flush=True)
