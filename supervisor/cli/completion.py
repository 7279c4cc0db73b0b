"""`nodeplane completion bash|zsh|fish`: print the script of a shell, and the candidates that the script asks for.

The scripts hold no tables: with each TAB they run `nodeplane completion SHELL --words ...`, the last word being the
one under the cursor. So they never age, and actors are those of the plane that --root names.
"""

import argparse
import importlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from protocols.process.layout import Layout
from supervisor.base.options import FLAGS
from supervisor.cli import bench
from supervisor.cli.commands import COMMANDS, command_of, parser_of
from supervisor.cli.flags import HEALTH, ROOT, arguments, layout_from, options, subcommands

FILES, DIRECTORIES = ":files", ":dirs"
"""Candidates that the shell itself finds."""
FILE_METAVARS = ("FILE", "SOCK", "CRI_SOCK")
TARGETS = ("pod", "device", "claim", "node", "plugin")
"""Kinds of targets of `why`."""
NO_ACTORS = ("supervisor", "forkserver", "audit")
"""Logs of something that cannot be killed or restarted."""

SCRIPTS = {path.suffix[1:]: path for path in Path(__file__).with_name("completion_scripts").glob("nodeplane.*")}
"""The scripts by their shells."""


class _Candidate(NamedTuple):
    word: str
    help: str = ""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("completion", help="print a completion script", allow_abbrev=False)
    parser.add_argument("shell", choices=tuple(SCRIPTS))
    parser.add_argument("--words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.set_defaults(run=_completion)


def _completion(args: argparse.Namespace) -> int:
    if args.words is None:
        print(SCRIPTS[args.shell].read_text(), end="")
        return 0
    words, done = _unsplit(args.words) if args.shell == "bash" else (args.words, "")
    for candidate in candidates(words or [""]):
        print(_line(args.shell, candidate).removeprefix(done))
    return 0


def _unsplit(words: Sequence[str]) -> tuple[list[str], str]:
    """Join what bash splits at `:`: `0000`, `:`, `3b`. Return also the part of the last word that bash leaves alone."""
    joined, done = [""], ""
    for word in words:
        done = ""
        if word and joined[-1] and (word.startswith(":") or joined[-1].endswith(":")):
            done = joined[-1] + (word if word.startswith(":") else "")
            joined[-1] += word
        else:
            joined.append(word)
    return joined[1:], done


def _line(shell: str, candidate: _Candidate) -> str:
    if shell == "zsh" and candidate.word not in (FILES, DIRECTORIES):
        word = candidate.word.replace(":", r"\:")  # which ends the word, also where no help follows
        return f"{word}:{candidate.help}" if candidate.help else word
    return f"{candidate.word}\t{candidate.help}" if shell == "fish" and candidate.help else candidate.word


def candidates(words: Sequence[str]) -> list[_Candidate]:
    """Return what the last word may become."""
    *before, current = _joined(words)
    name = command_of(before)
    if name and name not in COMMANDS:
        return []
    position = _position(before, name)
    if position.flag is not None:
        completions = _values(position.flag, before)
    elif current.startswith("--") and "=" in current:
        flag, _, current = current.partition("=")
        action = options(position.parser).get(flag)
        completions = _values(action, before) if action else []
    elif current.startswith("-"):
        completions = _flags(position.parser)
    else:
        completions = _arguments(position, name, before, current)
    return [
        candidate
        for candidate in completions
        if candidate.word in (FILES, DIRECTORIES) or candidate.word.startswith(current)
    ]


def _joined(words: Sequence[str]) -> list[str]:
    """Join what bash splits at `=`: `--root`, `=`, `/r`."""
    joined: list[str] = []
    for word in words:
        if word == "=" and joined and joined[-1].startswith("--") and "=" not in joined[-1]:
            joined[-1] += "="
        elif joined and joined[-1].startswith("--") and joined[-1].endswith("="):
            joined[-1] += word
        else:
            joined.append(word)
    return joined


class Position(NamedTuple):
    """The place of the cursor: the (sub)command, the arguments it has already, and the flag that awaits its value."""

    parser: argparse.ArgumentParser
    arguments: int
    flag: argparse.Action | None


def _position(before: Iterable[str], name: str) -> Position:
    modules = [importlib.import_module(COMMANDS[name].path)] if name else []
    parser: argparse.ArgumentParser = parser_of(modules)
    count, flag = 0, None
    for word in before:
        if flag is not None:
            flag = None
        elif word.startswith("-"):
            action = options(parser).get(word)
            flag = action if action and action.nargs != 0 else None
        elif word in (nested := subcommands(parser)):
            parser, count = nested[word].parser, 0
        else:
            count += 1
    return Position(parser, count, flag)


def _flags(parser: argparse.ArgumentParser) -> list[_Candidate]:
    shown = {word: action for word, action in options(parser).items() if action.help != argparse.SUPPRESS}
    return [_Candidate(word, _one_line(action.help)) for word, action in shown.items()]


def _one_line(text: str | None) -> str:
    return " ".join((text or "").replace("%%", "%").split())


def _arguments(position: Position, name: str, before: Sequence[str], current: str) -> list[_Candidate]:
    """Return commands, subcommands, or values of the next argument."""
    if name == "why" and not position.arguments:
        return [_Candidate(target) for target in _targets(before, current)]
    if not name:
        return [_Candidate(word, command.help) for word, command in COMMANDS.items()]
    if nested := subcommands(position.parser):
        return [_Candidate(word, _one_line(subcommand.help)) for word, subcommand in nested.items()]
    awaited = arguments(position.parser)
    repeated = any(action.nargs in ("*", "+") for action in awaited)
    place = min(position.arguments, len(awaited) - 1) if repeated else position.arguments
    return _values(awaited[place], before) if place < len(awaited) else []


def _values(action: argparse.Action, before: Sequence[str]) -> list[_Candidate]:
    if action.choices is not None:
        return [_Candidate(str(choice)) for choice in action.choices]
    if action.metavar in FILE_METAVARS or action.type is Path:
        return [_Candidate(FILES)]
    if action.metavar == "DIR":
        return [_Candidate(DIRECTORIES)]
    if action.dest in FLAGS:
        return [_Candidate(value) for value in FLAGS[action.dest].values]
    return [_Candidate(word) for word in FINDERS[action.dest](before)] if action.dest in FINDERS else []


class Given(NamedTuple):
    """The root that words name, the namespace, and the words that are no flags."""

    layout: Layout
    namespace: str
    words: list[str]


def _given(before: Sequence[str]) -> Given:
    reader = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    reader.add_argument(ROOT.option, default=argparse.SUPPRESS)
    reader.add_argument("-n", "--namespace", default="default")
    known, words = reader.parse_known_args(list(before))
    return Given(layout_from(known), known.namespace, words)


def _actors(before: Sequence[str]) -> list[str]:
    """Return the actors that have a log below the root that the words name."""
    names = sorted(path.stem for path in _given(before).layout.logs.glob("*.log"))
    return [name for name in names if "logs" in before or name not in NO_ACTORS]


def _benches(before: Sequence[str]) -> list[str]:
    return [name for name in bench.NAMES if "bench" in before and name not in before]


def _pods(before: Sequence[str]) -> list[str]:
    from supervisor.cli import candidates as live  # the bus is slow to load

    given = _given(before)
    prefix = "pod/" if "trace" in before else ""
    return [f"{prefix}{name}" for name in live.pod_names(given.layout, given.namespace)]


def _targets(before: Sequence[str], current: str) -> list[str]:
    """Return KIND/ for `why`, and KIND/NAME once only one kind fits."""
    from supervisor.cli import candidates as live

    typed, slash, _ = current.partition("/")
    kinds = [target for target in TARGETS if (target == typed if slash else target.startswith(typed))]
    if len(kinds) != 1:
        return [f"{kind}/" for kind in kinds]
    given = _given(before)
    names = live.names_of(given.layout, kinds[0], given.namespace)
    return [f"{kinds[0]}/{name}" for name in names] or [f"{kinds[0]}/"]


def _devices(before: Sequence[str]) -> list[str]:
    """Return words of `chaos device`: a device, then its health."""
    from supervisor.cli import candidates as live

    given = _given(before)
    words = given.words[given.words.index("device") + 1 :]
    return [*live.device_words(given.layout, words), *(HEALTH if words else ())]


FINDERS = {"actor": _actors, "names": _benches, "pod": _pods, "why": _pods, "device_words": _devices}
"""Functions that return the values of an argument, by its name in the namespace of its parser."""
