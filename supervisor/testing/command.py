"""`nodeplane test -- COMMAND...`: run a command beside a plane of its own and return its exit code.

The process adopts orphans of the command (PR_SET_CHILD_SUBREAPER), so that nothing it left behind outlives the test.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Sequence

from supervisor.base.errors import UsageError
from supervisor.base.options import FLAGS
from supervisor.cli.flags import add_plane_flags
from supervisor.testing.plane import TestPlane, search_path
from supervisor.testing.run import Run
from supervisor.testing.watching import WatchRun

NOT_FOUND, NOT_EXECUTABLE = 127, 126
OF_COMMAND = ("root", "port", "metrics_port", "join")
"""Flags of `up` that are the command's own business."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "test", help="run a command beside a plane of its own", allow_abbrev=False, usage="%(prog)s [flags] -- COMMAND"
    )
    parser.add_argument("--logs", metavar="DIR", help="where logs are kept if COMMAND fails (default a temporary one)")
    parser.add_argument(
        "--watch",
        metavar="PATH",
        nargs="*",
        help="run COMMAND again after each save below PATH (default .), each time on a plane that nothing has used",
    )
    add_plane_flags(parser, FLAGS.keys() - set(OF_COMMAND))
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="what to run")
    parser.set_defaults(run=_test)


def _test(args: argparse.Namespace) -> int:
    words = args.words[1:] if args.words[:1] == ["--"] else args.words
    if not words:
        raise UsageError("a command is missing: nodeplane test -- COMMAND...")
    if problem := _cannot_run(words[0]):
        print(f"nodeplane: {words[0]}: {'not found' if problem == NOT_FOUND else 'not executable'}", file=sys.stderr)
        return problem
    if args.watch is not None:
        return _watch(args, words)
    return Run(TestPlane(flags_of(args), getattr(args, "root", "")), words, args.logs or "").run()


def _watch(args: argparse.Namespace, words: Sequence[str]) -> int:
    if getattr(args, "root", ""):
        raise UsageError("--watch has a root of its own for each run, which it removes: leave --root out")
    flags = flags_of(args)
    return WatchRun(lambda: TestPlane(flags), words, args.logs or "", args.watch or ["."]).run()


def _cannot_run(program: str) -> int:
    """Return the exit code that a shell has for a program that cannot be started, or 0."""
    if shutil.which(program, path=search_path()):
        return 0
    return NOT_EXECUTABLE if os.path.sep in program and os.path.exists(program) else NOT_FOUND


def flags_of(args: argparse.Namespace) -> list[str]:
    """Return the given flags of the plane as words of `up`."""
    words = []
    for flag in FLAGS.values():
        if flag.field in OF_COMMAND or not hasattr(args, flag.field):
            continue
        value = getattr(args, flag.field)
        words += [f"{flag.option}={item}" for item in (value if flag.many else [value])]
    return words
