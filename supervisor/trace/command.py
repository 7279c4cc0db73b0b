"""`nodeplane trace pod/NAME`: one pod's life through all processes, as a waterfall."""

import argparse
import asyncio
import sys
from pathlib import Path

import msgspec

from protocols.kube.times import format_micro
from protocols.process.files import UNREADABLE
from protocols.recording.frames import RecordingInvalid
from protocols.trace import Row
from supervisor.base.errors import UsageError, until_interrupted
from supervisor.base.recordings import opened
from supervisor.base.terminal import json_text, print_json, show
from supervisor.cli.flags import layout_from
from supervisor.trace.collect import PodTrace, follow, pod_trace
from supervisor.trace.compare import compare, table
from supervisor.trace.draw import CUT, draw, is_cut, line, parts, plain, title
from supervisor.trace.recorded import trace_in

HELP = "a pod's life: created, scheduled, admitted, started, died; works after the fact, also for deleted pods"
MAX_FILE = 16 << 20
"""Bytes of a saved trace."""
DEEPEST = 100
"""Depth of its steps, by which they are indented."""
EPILOG = "Each process retains its newest 4096 steps and loses them when it ends; see docs/explanation/trace.md."


class JsonRow(msgspec.Struct, frozen=True):
    """A span; `depth` is its place below its callers, `time` its start in RFC 3339."""

    name: str
    actor: str
    time: str
    start_ns: int
    duration_ns: int
    depth: int
    attributes: dict[str, str]


class JsonTrace(msgspec.Struct, frozen=True):
    """A pod's trace; `silent` processes did not answer, so that their spans are missing."""

    pod: str
    uids: tuple[str, ...]
    silent: tuple[str, ...]
    spans: list[JsonRow]


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("trace", help=HELP, epilog=EPILOG, allow_abbrev=False)
    parser.add_argument("pod", nargs="?", metavar="pod/NAME", help="pod/NAME, [NAMESPACE/]NAME or the pod's uid")
    parser.add_argument(
        "--diff", nargs=2, metavar=("A", "B"), help="what took longer in B than in A: pods, or files of `-o json`"
    )
    parser.add_argument("--replay", metavar="FILE", default="", help="of a recording instead (up --record)")
    parser.add_argument("-n", "--namespace", default="default", help="default: default")
    parser.add_argument("-o", "--output", choices=("text", "wide", "json"), default="text", help="default: text")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with a line per step as they happen")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the trace of a pod; a process that does not answer is named on standard error."""
    if (args.pod is None) == (args.diff is None):
        raise UsageError("name one pod, or two with --diff")
    if args.follow and args.replay:
        raise UsageError("--replay shows what was recorded: it does not follow")
    if args.diff:
        return _diff(args)
    if args.follow:
        return until_interrupted(lambda: asyncio.run(_follow(args)))
    trace = _trace(args, args.pod)
    if args.output == "json":
        print_json(JsonTrace(trace.pod, trace.uids, trace.silent, [_json(row) for row in trace.rows]))
    elif args.output == "wide" or not sys.stdout.isatty():
        show(*(piece for part in parts(trace.rows) for piece in (title(part, trace.pod), plain(part))))
    else:
        _draw(trace)
    _warn(trace)
    return 0


def _key(args: argparse.Namespace, pod: str) -> tuple[str, str]:
    """Return the namespace, that of -n unless the text has one, and the name or uid."""
    namespace, _, name = pod.removeprefix("pod/").removeprefix("pods/").rpartition("/")
    return namespace or args.namespace, name


def _trace(args: argparse.Namespace, pod: str) -> PodTrace:
    if not args.replay:
        return asyncio.run(pod_trace(layout_from(args), *_key(args, pod)))
    recording = opened(args.replay)
    try:
        return asyncio.run(trace_in(recording, recording.end_ms, *_key(args, pod)))
    except RecordingInvalid as error:
        raise UsageError(f"--replay {args.replay}: {error}") from None


def _warn(trace: PodTrace) -> None:
    if is_cut(trace.rows):
        print(f"nodeplane: {CUT}", file=sys.stderr)
    if trace.silent:
        print(f"nodeplane: no answer from {', '.join(trace.silent)}: their steps are missing", file=sys.stderr)


def _diff(args: argparse.Namespace) -> int:
    if args.follow:
        raise UsageError("--diff compares what was recorded: it does not follow")
    traces = [read_trace(Path(source)) if source.endswith(".json") else _trace(args, source) for source in args.diff]
    a, b = traces
    comparison = compare(a.pod, a.rows, b.pod, b.rows)
    if args.output == "json":
        print_json(comparison)
    else:
        show(comparison.summary, f"A is {a.pod}, B is {b.pod}; compared is the {comparison.of}", table(comparison))
    for trace in traces:
        _warn(trace)
    return 0


def read_trace(path: Path) -> PodTrace:
    """Read a trace that `-o json` printed. Raises UsageError."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    if len(raw) > MAX_FILE:
        raise UsageError(f"{path} is longer than {MAX_FILE} bytes")
    try:
        saved = msgspec.json.decode(raw, type=JsonTrace)
    except UNREADABLE as error:
        raise UsageError(f"{path} holds no trace of `nodeplane trace -o json`: {error}") from None
    return PodTrace(saved.pod, saved.uids, [_row(span) for span in saved.spans], saved.silent)


def _row(span: JsonRow) -> Row:
    """Return the row of a saved span; a comparison needs no wall-clock time."""
    depth = min(max(0, span.depth), DEEPEST)
    return Row(span.name, span.actor, span.start_ns, span.duration_ns, depth, span.attributes, 0)


async def _follow(args: argparse.Namespace) -> None:
    """Print each step once, in the order in which they end, until cancelled."""
    async for rows in follow(layout_from(args), *_key(args, args.pod)):
        for row in rows:
            if args.output == "json":
                sys.stdout.write(json_text(msgspec.json.encode(_json(row))) + "\n")
            else:
                print(line(row))
        sys.stdout.flush()


def _draw(trace: PodTrace) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    for part in parts(trace.rows):
        console.print(title(part, trace.pod), style="bold", markup=False)
        for text in draw(part, console.width):
            console.print(text)


def _json(row: Row) -> JsonRow:
    time = format_micro(row.time_ns / 1e9)
    return JsonRow(row.name, row.actor, time, row.start_ns, row.duration_ns, row.depth, row.attributes)
