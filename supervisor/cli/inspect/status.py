"""Look at a running plane: `nodeplane status` and `logs`."""

import argparse
import sys
import time
from pathlib import Path

from protocols.errors import NodeplaneError
from protocols.messages.supervisor import ROOT_NAME, ActorStatus, FollowedStream, Heartbeat, PlaneStatus
from protocols.process.texts import printable
from supervisor.base.errors import NotRunning, UsageError, until_interrupted
from supervisor.base.terminal import Table, clear, duration, print_json, show
from supervisor.base.values import at_least
from supervisor.cli.flags import layout_from
from supervisor.client.connection import Asking, ask, check_access
from supervisor.root.logs import Tail
from supervisor.tree.states import SERVING

HEADER = ("ACTOR", "STATE", "PID", "UPTIME", "RESTARTS", "NOTE")
WIDE_HEADER = ("ACTOR", "GROUP", "PID", "STATE", "UPTIME", "RESTARTS", "SYNCED", "LAST REASON", "NOTE")
STREAM_HEADER = ("ACTOR", "STREAM", "SEQ", "MARK", "SYNCED")
DEFAULT_LINES = 200
AUDIT = "audit"
"""The audit log, shown only when named."""
POLL_S = 0.25
REFRESH_S = 1.0


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("status", help="what runs", allow_abbrev=False)
    parser.add_argument("-o", "--output", choices=("text", "wide", "json"), default="text", help="default: text")
    parser.add_argument("--streams", action="store_true", help="also the position of every stream")
    parser.add_argument("--watch", action="store_true", help="go on until Ctrl-C")
    parser.set_defaults(run=_status)
    logs = subparsers.add_parser("logs", help="show logs", allow_abbrev=False)
    logs.add_argument("actor", nargs="?", help="an actor's name, supervisor, forkserver or audit; default: all actors")
    logs.add_argument("-f", "--follow", action="store_true", help="go on as lines are written")
    logs.add_argument(
        "-n",
        "--lines",
        type=int,
        default=DEFAULT_LINES,
        help=f"lines of each log to begin with (default {DEFAULT_LINES})",
    )
    logs.set_defaults(run=_show_logs)


def _status(args: argparse.Namespace) -> int:
    if args.watch:
        return until_interrupted(lambda: _watch(args))
    _print_status(args)
    return 0


def _watch(args: argparse.Namespace) -> None:
    while True:
        _refresh(args)
        time.sleep(REFRESH_S)


def _print_status(args: argparse.Namespace) -> None:
    plane = ask(layout_from(args), Asking.status)
    if args.output == "json":
        print_json(plane)
    else:
        if args.watch:
            clear()
        wide = args.output == "wide"
        show(*sections(plane, wide=wide, streams=wide or args.streams))


def _refresh(args: argparse.Namespace) -> None:
    """Show the status, or why there is none: a plane that restarts is watched on."""
    try:
        _print_status(args)
    except NodeplaneError as error:
        clear()
        print(f"nodeplane: {printable(str(error))}", file=sys.stderr)


def sections(plane: PlaneStatus, *, wide: bool = False, streams: bool = False) -> list[Table | str]:
    """Return the tables of actors and endpoints; `streams` adds the position of every stream."""
    actors = sorted(plane.actors, key=lambda actor: not problem(actor))  # stable: else the order of the start
    if wide:
        parts: list[Table | str] = [Table(WIDE_HEADER, [_wide_row(actor) for actor in actors])]
    else:
        parts = [Table(HEADER, [_actor_row(actor) for actor in actors], clipped=True)]
    if streams and (rows := [row for actor in actors if actor.beat for row in _stream_rows(actor.beat)]):
        parts.append(Table(STREAM_HEADER, rows))
    parts.append("\n".join(f"{name:<11} {value}" for name, value in plane.endpoints.items()))
    return parts


def problem(actor: ActorStatus) -> str:
    """Return why an actor does not do its work, or ""."""
    if actor.state not in SERVING:
        return ": ".join(filter(None, (actor.last_reason, actor.beat.note if actor.beat else ""))) or actor.state
    if actor.beat is None:
        return ""
    stale = [f"{stream.owner}/{stream.stream}" for stream in actor.beat.follows if not stream.synced]
    return f"not synced: {', '.join(stale)}" if stale else ""


def _actor_row(actor: ActorStatus) -> tuple[str, ...]:
    return (*_process(actor), problem(actor) or (actor.beat.note if actor.beat else ""))


def _process(actor: ActorStatus) -> tuple[str, ...]:
    return actor.instance, actor.state, str(actor.pid or "-"), duration(actor.uptime_s), str(actor.restarts)


def _wide_row(actor: ActorStatus) -> tuple[str, ...]:
    return (
        actor.instance,
        actor.group,
        str(actor.pid or "-"),
        actor.state,
        duration(actor.uptime_s),
        str(actor.restarts),
        synced(actor.beat),
        actor.last_reason or "-",
        actor.beat.note if actor.beat else "",
    )


def synced(beat: Heartbeat | None) -> str:
    """Return how many of the followed streams are synced, such as `3/4`."""
    if beat is None or not beat.follows:
        return "-"
    return f"{sum(stream.synced for stream in beat.follows)}/{len(beat.follows)}"


def _stream_rows(beat: Heartbeat) -> list[tuple[str, ...]]:
    owned = [(beat.instance, f"owns {s.stream}", str(s.seq), str(s.mark), "-") for s in beat.owns]
    return owned + [_followed(beat.instance, stream) for stream in beat.follows]


def _followed(instance: str, stream: FollowedStream) -> tuple[str, ...]:
    name = f"follows {stream.owner}/{stream.stream}"
    return instance, name, str(stream.seq), str(stream.mark), "yes" if stream.synced else "NO"


def _show_logs(args: argparse.Namespace) -> int:
    where = layout_from(args)
    check_access(where)
    paths = log_files(where.logs, args.actor)
    tails = {path.stem: Tail(path) for path in paths}
    prefix = len(tails) > 1
    _print_new(tails, prefix, at_least(0, args.lines, "-n"))
    return until_interrupted(lambda: _follow(tails, prefix)) if args.follow else 0


def _follow(tails: dict[str, Tail], prefix: bool) -> None:
    while True:
        time.sleep(POLL_S)
        _print_new(tails, prefix, None)


def log_files(directory: Path, actor: str | None) -> list[Path]:
    """Return the logs of one actor, or of all. Raises UsageError if it has none, NotRunning if nobody has."""
    logs = sorted(directory.glob("*.log"))
    if actor is None and not logs:
        raise NotRunning(f"no plane has written logs to {directory}; start it with `nodeplane up`, or give --root")
    if actor is None:
        return [path for path in logs if path.stem != AUDIT]
    chosen = [path for path in logs if path.stem == actor]
    if not chosen and (actor == ROOT_NAME or actor.startswith(f"{ROOT_NAME}-")):
        raise UsageError(
            f"{actor} writes to the terminal, or journal, of its `nodeplane up`; only with --detach to a file"
        )
    if not chosen:
        names = ", ".join(path.stem for path in logs) or "none yet"
        raise UsageError(f"no log of {actor!r} below {directory}; there are: {names}")
    return chosen


def _print_new(tails: dict[str, Tail], prefix: bool, last: int | None) -> None:
    for name, tail in tails.items():
        lines = tail.lines()
        for line in lines if last is None else lines[max(0, len(lines) - last) :]:
            print(f"{name}: {line}" if prefix else line, flush=True)
