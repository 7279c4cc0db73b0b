"""`nodeplane conform -- COMMAND...`: what is wrong with a device plugin, DRA driver or agent, rule by rule."""

import argparse
import asyncio
import shutil
import signal
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

from protocols.process.linux import adopt_descendants
from supervisor.base.errors import SupervisorError, UsageError
from supervisor.base.terminal import print_json, table
from supervisor.cli.flags import layout_from
from supervisor.cli.operate.judging import JudgedProgram, stage_of
from supervisor.conform.profiles import PROFILES
from supervisor.conform.program_stage import Running
from supervisor.conform.report.html import html_page
from supervisor.conform.report.json import run_json
from supervisor.conform.report.junit import junit
from supervisor.conform.report.text import Printer, counts_line
from supervisor.conform.runner import run_all
from supervisor.conform.scripts import AGENT, DRA, KINDS, PLUGIN, Behaviour, behaviours
from supervisor.conform.verdict import FAIL, Listed, Result
from supervisor.testing.plane import search_path
from supervisor.testing.run import end_children

TIMEOUT_S = 10.0
KIND_HELP = "what COMMAND is (default plugin)"
TIMEOUT_HELP = "seconds for an answer, or to register again; a start may take three times as long (default 10)"
BREAK_HELP = "a shell command that makes one device or more unhealthy; health-change and health-flaps need it"
MEND_HELP = "a shell command that makes them healthy again"
SHOWS_HELP = "a shell command that prints the pods that the agent knows; shows-pods needs it"
PROFILE_HELP = "names and number of the devices that an agent is shown (default generic), or that a plugin is to offer"
FOLDER_HELP = "a folder with behaviours of your own; may be repeated"
SOCKET_HELP = "judge the plugin or driver that runs already and serves at this socket, instead of a command"
DIRECTORY_HELP = "kubelet directory to serve (default a temporary one)"
MANIFEST_HELP = "judge the DaemonSet of this manifest (- for standard input), as a pod on a plane of its own"
IMAGE_HELP = "archive of the manifest's image (OCI layout or docker save); without it commands run on the host's files"
RUNTIME_HELP = "runtime of the manifest's pods, unix:///PATH of a CRI socket (default embedded)"
PROGRAMS = "nodeplane conform -- COMMAND..., --socket PATH or --manifest FILE"


class Interrupted(SupervisorError, grpc="CANCELLED"):
    """Raised when SIGTERM or SIGHUP ends the run."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "conform",
        help="say what is wrong with a device plugin, DRA driver or agent",
        allow_abbrev=False,
        usage="%(prog)s [flags] (-- COMMAND | --socket PATH | --manifest FILE)",
    )
    parser.add_argument("--kind", choices=tuple(KINDS), default=PLUGIN.name, help=KIND_HELP)
    parser.add_argument("-o", dest="output", choices=("table", "json"), default="table", help="output format")
    parser.add_argument("--only", metavar="NAME,...", help="judge these behaviours only")
    parser.add_argument("--list", action="store_true", help="list the behaviours with their rules and end")
    parser.add_argument(
        "--timeout",
        metavar="S",
        type=float,
        default=TIMEOUT_S,
        help=TIMEOUT_HELP,
    )
    parser.add_argument("--junit", metavar="FILE", help="write JUnit XML")
    parser.add_argument("--html", metavar="FILE", help="write a page of HTML")
    parser.add_argument(
        "--behaviours",
        metavar="DIR",
        action="append",
        default=[],
        help=FOLDER_HELP,
    )
    parser.add_argument("--kubelet-dir", metavar="DIR", default="", help=DIRECTORY_HELP)
    parser.add_argument("--break", dest="break_with", metavar="SHELL", default="", help=BREAK_HELP)
    parser.add_argument("--mend", dest="mend_with", metavar="SHELL", default="", help=MEND_HELP)
    parser.add_argument("--shows", dest="shows_with", metavar="SHELL", default="", help=SHOWS_HELP)
    parser.add_argument("--profile", choices=tuple(PROFILES), default="", help=PROFILE_HELP)
    parser.add_argument("--socket", metavar="PATH", default="", help=SOCKET_HELP)
    parser.add_argument("--manifest", metavar="FILE", default="", help=MANIFEST_HELP)
    parser.add_argument("--image", metavar="FILE", default="", help=IMAGE_HELP)
    parser.add_argument("--runtime", metavar="RUNTIME", default="", help=RUNTIME_HELP)
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the program")
    parser.set_defaults(run=conform)


def conform(args: argparse.Namespace) -> int:
    """Return 0 if no behaviour fails, else 1. Raises UsageError."""
    chosen = choose(behaviours(map(Path, args.behaviours), KINDS[args.kind]), args.only)
    if args.list:
        _show(chosen, args.output)
        return 0
    if not 0 < args.timeout <= 600:
        raise UsageError("--timeout must be more than 0 and at most 600 seconds")
    for flag, path in (("--junit", args.junit), ("--html", args.html)):
        check_report(flag, path)
    subject = subject_of(args)
    results = run(subject, args, chosen)
    write_reports(subject.shown, results, args)
    return 1 if any(result.verdict == FAIL for result in results) else 0


def _show(chosen: Sequence[Behaviour], output: str) -> None:
    if output == "json":
        print_json([Listed(e.name, e.title, e.phase, e.rule, e.source, e.advice) for e in chosen])
    else:
        print(
            table(
                ("BEHAVIOUR", "PHASE", "RULE"),
                [(behaviour.name, behaviour.phase, behaviour.rule) for behaviour in chosen],
            )
        )


def choose(found: Sequence[Behaviour], only: str | None) -> list[Behaviour]:
    """Return the behaviours that --only names, or all. Raises UsageError."""
    if not only:
        return list(found)
    names = only.split(",")
    if unknown := set(names) - {behaviour.name for behaviour in found}:
        raise UsageError(f"no behaviour is called {min(unknown)!r}; nodeplane conform --list shows them")
    return [behaviour for behaviour in found if behaviour.name in names]


def subject_of(args: argparse.Namespace) -> JudgedProgram:
    """Return what is judged. Raises UsageError if it is not exactly one program."""
    if (bool(args.words), bool(args.socket), bool(args.manifest)).count(True) != 1:
        raise UsageError(f"one program is judged: {PROGRAMS}")
    if (args.image or args.runtime) and not args.manifest:
        raise UsageError("--image and --runtime are about the pods of a --manifest")
    if args.profile and args.kind == DRA.name:
        raise UsageError("--profile is about resources of plugins and agents: a DRA driver names its devices itself")
    if args.image and args.runtime:
        raise UsageError("--image is imported into the embedded runtime: with --runtime import it there")
    if args.shows_with and args.kind != AGENT.name:
        raise UsageError("--shows is about the pods that an agent knows; give --kind agent")
    if (args.break_with or args.mend_with) and args.kind == AGENT.name:
        raise UsageError("--break and --mend are about the devices of plugins and drivers: an agent has none")
    if (args.kubelet_dir or args.profile) and args.socket:
        raise UsageError(
            "--kubelet-dir and --profile are for programs that register: that at --socket has done so before"
        )
    return JudgedProgram(
        kind=KINDS[args.kind],
        timeout=args.timeout,
        words=command_of(args.words) if args.words else (),
        socket=args.socket,
        manifest=args.manifest,
        image=args.image,
        runtime=args.runtime,
        kubelet_dir=args.kubelet_dir,
        profile=args.profile,
        where=layout_from(args),
    )


def command_of(given: Sequence[str]) -> list[str]:
    """Return the words of COMMAND. Raises UsageError if it cannot be run."""
    words = list(given[1:] if given[:1] == ["--"] else given)
    if not words:
        raise UsageError(f"a command is missing: {PROGRAMS}")
    if not shutil.which(words[0], path=search_path()):
        raise UsageError(f"{words[0]}: not found, or not executable")
    return words


def run(subject: JudgedProgram, args: argparse.Namespace, chosen: Sequence[Behaviour]) -> list[Result]:
    """Judge the behaviours."""
    adopt_descendants()
    try:
        with stage_of(subject) as stage:
            stage.break_with, stage.mend_with, stage.shows_with = args.break_with, args.mend_with, args.shows_with
            return asyncio.run(_judge(stage, chosen, Printer() if args.output == "table" else None))
    except asyncio.CancelledError:
        raise Interrupted("a signal ended it before all behaviours were judged") from None
    finally:
        end_children()


async def _judge(stage: Running, chosen: Sequence[Behaviour], printer: Printer | None) -> list[Result]:
    """A signal ends the run with the program."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    results = []
    if printer:
        printer.begin(chosen)
    async with aclosing(run_all(stage, chosen)) as judged:
        async for result in judged:
            results.append(result)
            if printer:
                printer.result(result)
    if printer:
        printer.end()
    return results


def check_report(flag: str, path: str) -> None:
    """Raise UsageError for a report that cannot be written, before a run of half a minute; nothing is left there."""
    if not path:
        return
    there = Path(path).exists()
    try:
        Path(path).open("ab").close()
    except OSError as error:
        raise UsageError(f"{flag} {path}: {error.strerror}; give another path") from None
    if not there:
        Path(path).unlink()


def write_reports(words: Sequence[str], results: Sequence[Result], args: argparse.Namespace) -> None:
    """Print the rest of the report and write the files. Raises OSError."""
    if args.output == "json":
        print_json(run_json(words, results))
    else:
        print(counts_line(results))
    for path, write in ((args.junit, junit), (args.html, html_page)):
        if path:
            Path(path).write_text(write(words, results), "utf-8")
