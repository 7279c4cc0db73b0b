"""nodeplane up: the whole plane in one process tree."""

import argparse

from supervisor.cli.flags import add_plane_flags, plane_options
from supervisor.start import start


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("up", help="start the plane", allow_abbrev=False)
    add_plane_flags(parser)
    parser.add_argument("--detach", action="store_true", help="return when the node is Ready; the plane goes on")


def run(args: argparse.Namespace) -> int:
    return start(plane_options(args), detach=args.detach)
