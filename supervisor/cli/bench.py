"""This machine and this installation: `nodeplane bench` (tests/bench, also in the wheel) and `nodeplane version`."""

import argparse
import subprocess
import sys
from importlib import metadata
from pathlib import Path

TREE = Path(__file__).parents[2]


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("bench", help="measure this machine and print a row a figure")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    parser.set_defaults(run=bench)
    about = subparsers.add_parser("version", help="print the version", allow_abbrev=False)
    about.set_defaults(run=print_version)


def bench(arguments: argparse.Namespace) -> int:
    command = [sys.executable, "-m", "tests.bench.main", *arguments.names, "-o", arguments.output]
    return subprocess.run(command, cwd=TREE, check=False).returncode


def print_version(args: argparse.Namespace) -> int:
    print(f"nodeplane {version()}")
    return 0


def version() -> str:
    try:
        return metadata.version("nodeplane")
    except metadata.PackageNotFoundError:
        return "unknown (not installed)"
