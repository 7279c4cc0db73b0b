"""`nodeplane console`: the live console. Textual is imported only when it runs."""

import argparse
import logging
import os
import sys

from protocols.process.layout import Layout
from supervisor.base import values
from supervisor.base.errors import UsageError
from supervisor.base.recordings import opened
from supervisor.cli.flags import layout_from
from supervisor.client.connection import running
from supervisor.console.web.process import PARENT
from supervisor.forkserver.child import die_with_parent


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("console", help="look at the plane while it runs", allow_abbrev=False)
    parser.add_argument("--read-only", action="store_true", help="without keys that change anything")
    parser.add_argument("--web", action="store_true", help="serve it to a browser on this machine instead")
    parser.add_argument("--port", type=int, default=0, help="port of --web (default: a free one)")
    parser.add_argument("--replay", metavar="FILE", default="", help="of a recording instead (up --record)")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    layout = layout_from(args)
    if args.replay:
        opened(args.replay)  # or raises UsageError
    else:
        running(layout)  # or raises NotRunning
    if args.web:
        return _serve(args, layout)
    if args.port:
        raise UsageError("--port is the port of --web; give both")
    parent = os.environ.pop(PARENT, "")
    if parent:
        die_with_parent(int(parent))
    elif not sys.stdout.isatty():
        raise UsageError("the console needs a terminal; use --web for a browser, `nodeplane status` in scripts")
    logging.basicConfig(handlers=[logging.NullHandler()])  # a line on standard error would spoil the screen
    if args.replay:
        _replay(args.replay)
        return 0
    from supervisor.console.app import Console

    Console(layout, read_only=args.read_only).run()
    return 0


def _replay(path: str) -> None:
    from supervisor.console.replay_app import Replay

    recording = opened(path)
    Replay(recording, recording.end_ms).run()


def _serve(args: argparse.Namespace, layout: Layout) -> int:
    port = values.port(args.port, "--port")
    from supervisor.console.web.server import serve

    command = ["-m", "supervisor.cli.main", "console", "--root", str(layout.root)]
    command += ["--read-only"] if args.read_only else []
    command += ["--replay", os.path.abspath(args.replay)] if args.replay else []
    serve(command, port)
    return 0
