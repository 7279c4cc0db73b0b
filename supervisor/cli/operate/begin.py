"""`nodeplane new` and `nodeplane protos`: the files with which a device plugin, DRA driver or agent begins."""

import argparse
from pathlib import Path

from supervisor.base.errors import UsageError
from supervisor.begin.project import (
    AGENT,
    APIS,
    DRIVER,
    DRIVER_NAME,
    GO,
    PLUGIN,
    PYTHON,
    RESOURCE,
    names_for,
    write_project,
    write_protos,
)

FORCE_HELP = "overwrite files with other contents"


def _directory(text: str) -> Path:
    if not text:  # of a variable that is not set, and Path would mean the current directory
        raise UsageError("DIR is empty; . is the current directory")
    return Path(text)


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    _add_protos(subparsers)
    parser = subparsers.add_parser("new", help="begin a device plugin, DRA driver or agent", allow_abbrev=False)
    parser.add_argument("kind", choices=(PLUGIN, DRIVER, AGENT))
    parser.add_argument("directory", type=_directory, metavar="DIR", help="directory of the project, which names it")
    language = parser.add_mutually_exclusive_group()
    for name in (PYTHON, GO):
        language.add_argument(f"--{name}", dest="language", action="store_const", const=name, help=f"in {name.title()}")
    parser.add_argument("--resource", metavar="NAME", help=f"of a plugin or agent (default {RESOURCE})")
    parser.add_argument("--driver", metavar="NAME", help=f"of a DRA driver (default {DRIVER_NAME})")
    parser.add_argument("--force", action="store_true", help=FORCE_HELP)
    parser.set_defaults(run=new, language=PYTHON)


def _add_protos(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("protos", help="write .proto files", allow_abbrev=False)
    parser.add_argument("directory", type=_directory, metavar="DIR", help="directory to write them to")
    parser.add_argument("--force", action="store_true", help=FORCE_HELP)
    parser.set_defaults(run=protos)


def protos(args: argparse.Namespace) -> int:
    """Write the .proto files. Raises FilesExist."""
    written = write_protos(args.directory, force=args.force)
    for path, about in zip(written, APIS.values(), strict=True):
        print(f"{path}: {about}")
    return 0


def new(args: argparse.Namespace) -> int:
    """Write a project. Raises UsageError, FilesExist."""
    names = names_for(args.directory, args.kind, args.resource, args.driver)
    for path in write_project(args.kind, args.language, args.directory, names, force=args.force):
        print(path)
    print(f"{args.directory / 'README.md'} has the commands to go on with")
    return 0
