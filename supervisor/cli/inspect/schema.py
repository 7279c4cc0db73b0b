"""`nodeplane schema [COMMAND]`: the JSON schema of what a command prints with `-o json`."""

import argparse

from supervisor.base.errors import UsageError, did_you_mean
from supervisor.base.terminal import print_json
from supervisor.cli.outputs import OUTPUTS, schema

HELP = "print the JSON schema of what a command prints with -o json"
WORDS_HELP = "such as status, or devices --plugins; without it, list the commands that have a schema"


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("schema", help=HELP, description=HELP, allow_abbrev=False)
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND", help=WORDS_HELP)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    name = " ".join(args.words)
    if not name:
        print("\n".join(OUTPUTS))
        return 0
    if name not in OUTPUTS:
        hint = did_you_mean(name, {output: output for output in OUTPUTS})
        raise UsageError(f"no output is called {name!r}; {hint}`nodeplane schema` lists them")
    print_json(schema(name))
    return 0
