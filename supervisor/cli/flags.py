"""Flags shared by commands. Every flag may also be given as an environment variable NODEPLANE_FLAG_NAME."""

import argparse
import os
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple, NoReturn

import msgspec

from protocols.process.layout import Layout
from supervisor.base.errors import UsageError, did_you_mean
from supervisor.base.options import FLAGS, VARIABLE, Flag, PlaneOptions, layout_of

ROOT = FLAGS["root"]
LOG_LEVEL = FLAGS["log_level"]
HEALTH = {"unhealthy": "unhealthy", "healthy": "healthy", "unknown": "unknown", "clear": ""}
"""Health on the command line -> health in a ChaosDevice request. Unknown is for DRA drivers, clear as reported."""


FOR_PROGRAMS = "POD_RESOURCES"
"""Variable that agents read, which is near a flag."""
NEAR = 0.8
"""Likeness of a misspelt name to its flag's."""
MISSING = "the following arguments are required: "
"""Prefix of argparse's error, which lists no choices."""


class Parser(argparse.ArgumentParser):
    """Reports an error in one line, with exit code 2, by the name of the subcommand that has it."""

    def error(self, message: str) -> NoReturn:
        if message.startswith(MISSING):
            message = MISSING + ", ".join(map(self._with_choices, message.removeprefix(MISSING).split(", ")))
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")

    def _with_choices(self, name: str) -> str:
        among = next((action.choices for action in arguments(self) if action.dest == name and action.choices), ())
        return f"{name} ({', '.join(map(str, among))})" if among else name

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Return the arguments, as `parse_args` does."""
        args, rest = self.parse_known_args(words)
        if rest:
            chosen = _chosen(self, args)
            near = did_you_mean(rest[0].partition("=")[0], {option: option for option in options(chosen)})
            chosen.error(f"unrecognized arguments: {' '.join(rest)}{near and f' ({near.strip()})'}")
        return args


def _chosen(parser: argparse.ArgumentParser, found: argparse.Namespace) -> argparse.ArgumentParser:
    """Return the parser of the subcommand that these arguments name."""
    while (choice := _choice_of(parser)) is not None:
        parser = choice.choices[getattr(found, choice.dest)]
    return parser


def add_root_everywhere(parser: argparse.ArgumentParser) -> None:
    """Add --root to a parser and to the parsers of its subcommands, at any depth."""
    if ROOT.option not in options(parser):
        _add_flag(parser, ROOT)
    for nested in subcommands(parser).values():
        add_root_everywhere(nested.parser)


class _Subcommand(NamedTuple):
    parser: argparse.ArgumentParser
    help: str


def subcommands(parser: argparse.ArgumentParser) -> dict[str, _Subcommand]:
    """Return the subcommands of a parser. Like the next two, it reads what argparse keeps to itself."""
    choice = _choice_of(parser)
    if choice is None:
        return {}
    helps = {action.dest: action.help or "" for action in choice._choices_actions}
    return {name: _Subcommand(nested, helps.get(name, "")) for name, nested in choice.choices.items()}


def _choice_of(parser: argparse.ArgumentParser) -> "argparse._SubParsersAction[argparse.ArgumentParser] | None":
    return next((action for action in parser._actions if isinstance(action, argparse._SubParsersAction)), None)


def options(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """Return the options of a parser by each of their names, such as `-o` and `--output`."""
    return parser._option_string_actions


def arguments(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the arguments of a parser that are no options, in their order."""
    return [action for action in parser._actions if not action.option_strings]


def add_plane_flags(parser: argparse.ArgumentParser, fields: Container[str] = FLAGS) -> None:
    """Add a flag for each field of PlaneOptions that is among `fields`."""
    for flag in FLAGS.values():
        if flag.field in fields:
            _add_flag(parser, flag)
    if LOG_LEVEL.field in fields:
        parser.add_argument(
            "-v",
            dest=LOG_LEVEL.field,
            action="store_const",
            const="debug",
            default=argparse.SUPPRESS,
            help=f"{LOG_LEVEL.option} debug: pleg logs a line for each PodLifecycleEvent",
        )


def _add_flag(parser: argparse.ArgumentParser, flag: Flag) -> None:
    """Add a flag without default, so that an environment variable counts where the flag is not given."""
    parser.add_argument(
        flag.option,
        dest=flag.field,
        metavar=flag.metavar,
        help=f"{flag.help} (default {flag.default})" if flag.default else flag.help,
        type=int if flag.number else _root if flag is ROOT else str,
        action="append" if flag.many else "store",
        default=argparse.SUPPRESS,
    )


def _root(text: str) -> str:
    if not text:  # of a variable that is not set, and the default root may have a plane
        raise argparse.ArgumentTypeError("it is empty; name a directory, or leave the flag out for the default")
    return text


def plane_options(args: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> PlaneOptions:
    """Read the options from flags, then the environment, then defaults. Raises UsageError."""
    _check_names(environment)
    given: dict[str, object] = {}
    for flag in FLAGS.values():
        if hasattr(args, flag.field):
            given[flag.field] = getattr(args, flag.field)
        elif environment.get(flag.variable, "") != "":
            given[flag.field] = _from_environment(flag, environment[flag.variable])
    return msgspec.convert(given, PlaneOptions)


def _check_names(environment: Mapping[str, str]) -> None:
    """Raises UsageError for a misspelt variable. Others may be of services (`NODEPLANE_SERVICE_HOST`) or programs."""
    known = {flag.variable.removeprefix(VARIABLE): flag.variable for flag in FLAGS.values()}
    for name in environment:
        short = name.removeprefix(VARIABLE)
        if short not in (name, *known, FOR_PROGRAMS) and (near := did_you_mean(short, known, NEAR)):
            raise UsageError(f"{name} stands for no flag; {near.rstrip()}")


def _from_environment(flag: Flag, text: str) -> object:
    if flag.many:
        return text.split()
    if not flag.number:
        return text
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{flag.variable}={text!r} is no number") from None


def layout_from(args: argparse.Namespace) -> Layout:
    """Return the paths of the plane that a command is about: by --root, else NODEPLANE_ROOT, else the default root."""
    root = getattr(args, "root", "") or os.environ.get(ROOT.variable, "")
    kubelet = getattr(args, "kubelet_dir", "") or os.environ.get("NODEPLANE_KUBELET_DIR", "")
    return layout_of(PlaneOptions(root=root, kubelet_dir=kubelet))
