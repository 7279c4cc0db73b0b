"""`nodeplane capture RESOURCE|DRIVER`: write the script that plays the recorded calls of a plugin or driver again."""

import argparse
import sys
import time
from pathlib import Path

from protocols.errors import NodeplaneError
from protocols.messages.calls import CallRecord
from protocols.process.files import write_atomic
from protocols.process.layout import Layout
from protocols.process.settings import load_settings
from supervisor.calls.client import CallQuery, read_calls
from supervisor.calls.peers import check_peer
from supervisor.capture.devices import Published, published
from supervisor.capture.driver import calls_of, captured_driver, is_driver
from supervisor.capture.parts import Captured
from supervisor.capture.script import captured
from supervisor.capture.text import left_out, script_text
from supervisor.cli.flags import layout_from
from supervisor.client.connection import Asking, ask

HELP = "write the recorded calls of a device plugin or DRA driver as a script that plays them again"
EPILOG = (
    "The script of a plugin holds the values of environment variables that Allocate answered; names of pods are left"
    " out. That of a driver may hold names of claims. Play it with `nodeplane plugin` or `nodeplane dra-driver`, and"
    " --script FILE."
)


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("capture", help=HELP, epilog=EPILOG, allow_abbrev=False)
    parser.add_argument("peer", metavar="RESOURCE|DRIVER", help="extended resource or driver, as in `nodeplane calls`")
    parser.add_argument("-o", "--output", metavar="FILE", help="default: standard output")
    parser.add_argument(
        "--since", type=_seconds, metavar="S", help="begin with the registration in force S seconds ago (the first)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print or write the script; what the record does not hold is named on standard error."""
    layout = layout_from(args)
    records = ask(layout, lambda asking: _read(asking, args.peer))
    since_ns = time.time_ns() - args.since * 10**9 if args.since is not None else 0
    found = _captured(layout, args.peer, records, since_ns)
    text = script_text(found)
    if args.output:
        write_atomic(Path(args.output), text.encode())  # with mode 0600: it may hold secrets
    else:
        sys.stdout.write(text)
    if found.omitted:
        print(f"nodeplane: {left_out(found)}", file=sys.stderr)
    return 0


def _seconds(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError("must be a whole number of seconds")
    return int(text)


def _captured(layout: Layout, peer: str, records: list[CallRecord], since_ns: int) -> Captured:
    """Raises NothingToCapture."""
    mine = calls_of(peer, records)
    if not is_driver(mine):
        return captured(peer, mine, since_ns)
    return captured_driver(peer, mine, _published(layout, peer), since_ns)


def _published(layout: Layout, driver: str) -> Published:
    """Return a driver's devices by the API; none, and a line on standard error, if it does not answer."""
    from supervisor.dra.sources import read_slices  # slow to load: the client

    try:
        return published(read_slices(layout.kubeconfig, driver), load_settings(layout.settings).node_name)
    except NodeplaneError as error:
        print(f"nodeplane: devices have only the names that calls hold: {error}", file=sys.stderr)
        return Published()


async def _read(asking: Asking, peer: str) -> list[CallRecord]:
    """Return the calls of all: a driver's first ones have no name. Raises NoSuchPeer if nothing has the name."""
    records = await read_calls(asking.bus, CallQuery(show_secrets=True))
    if not any(record.peer == peer for record in records):
        await check_peer(asking.bus, peer)
    return records
