"""`nodeplane trace pod/NAME`: one pod's life through all processes, as a waterfall."""

import argparse
import asyncio
import contextlib
import sys

import msgspec

from protocols.kube.times import format_micro
from protocols.trace import Row
from supervisor.base.terminal import json_text, print_json, show
from supervisor.cli.flags import layout_from
from supervisor.trace.collect import PodTrace, follow, pod_trace
from supervisor.trace.draw import CUT, draw, is_cut, line, parts, plain, title

HELP = "a pod's life: created, scheduled, admitted, started, died; works after the fact, also for deleted pods"
EPILOG = "Each process retains its newest 4096 steps and loses them when it ends; see docs/explanation/trace.md."


class JsonRow(msgspec.Struct, frozen=True):
    name: str
    actor: str
    time: str
    start_ns: int
    duration_ns: int
    depth: int
    attributes: dict[str, str]


class JsonTrace(msgspec.Struct, frozen=True):
    pod: str
    uids: tuple[str, ...]
    silent: tuple[str, ...]
    spans: list[JsonRow]


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("trace", help=HELP, epilog=EPILOG, allow_abbrev=False)
    parser.add_argument("pod", metavar="pod/NAME", help="pod/NAME, NAME or the pod's uid")
    parser.add_argument("-n", "--namespace", default="default", help="default: default")
    parser.add_argument("-o", "--output", choices=("text", "wide", "json"), default="text", help="default: text")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with a line per step as they happen")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the trace of a pod; a process that does not answer is named on standard error."""
    name = args.pod.removeprefix("pod/").removeprefix("pods/")
    if args.follow:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_follow(args, name))
        return 0
    trace = asyncio.run(pod_trace(layout_from(args), args.namespace, name))
    if args.output == "json":
        print_json(JsonTrace(trace.pod, trace.uids, trace.silent, [_json(row) for row in trace.rows]))
    elif args.output == "wide" or not sys.stdout.isatty():
        show(*(piece for part in parts(trace.rows) for piece in (title(part, trace.pod), plain(part))))
    else:
        _draw(trace)
    if is_cut(trace.rows):
        print(f"nodeplane: {CUT}", file=sys.stderr)
    if trace.silent:
        print(f"nodeplane: no answer from {', '.join(trace.silent)}: their steps are missing", file=sys.stderr)
    return 0


async def _follow(args: argparse.Namespace, name: str) -> None:
    """Print each step once, in the order in which they end, until cancelled."""
    async for rows in follow(layout_from(args), args.namespace, name):
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
