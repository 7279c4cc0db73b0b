"""nodeplane version."""

import argparse
from importlib import metadata


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    subparsers.add_parser("version", help="print the version", allow_abbrev=False)


def run(args: argparse.Namespace) -> int:
    print(f"nodeplane {version()}")
    return 0


def version() -> str:
    try:
        return metadata.version("nodeplane")
    except metadata.PackageNotFoundError:
        return "unknown (not installed)"
