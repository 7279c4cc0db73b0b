"""`nodeplane capture RESOURCE`: write the script that plays the recorded calls of a device plugin again."""

import argparse
import sys
import time
from pathlib import Path

from protocols.messages.calls import CallRecord
from protocols.process.files import write_atomic
from supervisor.calls.client import CallQuery, read_calls
from supervisor.calls.peers import check_peer
from supervisor.capture.script import captured
from supervisor.capture.text import left_out, script_text
from supervisor.cli.flags import layout_from
from supervisor.client.connection import Asking, ask

HELP = "write a device plugin's recorded calls as a script that plays them again"
EPILOG = "The script holds the values of environment variables that Allocate answered; names of pods are left out."


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("capture", help=HELP, epilog=EPILOG, allow_abbrev=False)
    parser.add_argument("resource", metavar="RESOURCE", help="the plugin's extended resource, as in `nodeplane calls`")
    parser.add_argument("-o", "--output", metavar="FILE", help="default: standard output")
    parser.add_argument(
        "--since", type=_seconds, metavar="S", help="begin with the registration in force S seconds ago (the first)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print or write the script; what the record does not hold is named on standard error."""
    records = ask(layout_from(args), lambda asking: _read(asking, args.resource))
    since_ns = time.time_ns() - args.since * 10**9 if args.since is not None else 0
    found = captured(args.resource, records, since_ns)
    text = script_text(found)
    if args.output:
        write_atomic(Path(args.output), text.encode())  # with mode 0600: it may hold secrets
    else:
        sys.stdout.write(text)
    if found.omitted:
        print(f"nodeplane: {left_out(found.omitted)}", file=sys.stderr)
    return 0


def _seconds(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError("must be a whole number of seconds")
    return int(text)


async def _read(asking: Asking, resource: str) -> list[CallRecord]:
    """Raises NoSuchPeer if nothing has the name."""
    records = await read_calls(asking.bus, CallQuery(resource, show_secrets=True))
    if not records:
        await check_peer(asking.bus, resource)
    return records
