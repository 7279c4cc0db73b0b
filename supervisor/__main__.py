"""`python -m supervisor GROUP` runs one group with a supervisor of its own: one line of the Procfile."""

import argparse
import os
import sys

from supervisor.base.errors import UsageError, check_packages, guard
from supervisor.base.groups import GROUPS, NODE, WATCHER
from supervisor.cli.flags import Parser, add_plane_flags, plane_options
from supervisor.plane.start import start


def main() -> int:
    parser = Parser(prog="python -m supervisor", allow_abbrev=False)
    parser.add_argument("group", choices=GROUPS)
    add_plane_flags(parser)
    args = parser.parse_args()
    return guard(lambda: _run(args))


def _run(args: argparse.Namespace) -> int:
    check_packages()
    return start(plane_options(args), group=args.group, slot=_slot(args.group))


def _slot(group: str) -> int:
    """Return the number of this line: `honcho start -c watcher=4` runs a line as watcher.1 to watcher.4."""
    name, _, number = os.environ.get("HONCHO_PROCESS_NAME", "").rpartition(".")
    if not name or not number.isdecimal() or number == "1":
        return 0
    if group == NODE:
        raise UsageError(
            f"more nodes are no more lines: use --nodes {number}, or NODEPLANE_NODES={number} honcho start"
        )
    if group != WATCHER or not 1 <= int(number) <= 9:
        raise UsageError(f"group {group} cannot run {number} times; only watcher can, up to 9 times")
    return int(number) - 1


if __name__ == "__main__":
    sys.exit(main())
