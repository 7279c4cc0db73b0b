"""`nodeplane capture RESOURCE|DRIVER`: write the script that plays the recorded calls of a plugin or driver again."""

import argparse
import socket
import sys
import time
from pathlib import Path

from protocols.errors import NodeplaneError
from protocols.messages.calls import CallRecord
from protocols.process.files import write_atomic
from protocols.process.layout import Layout
from protocols.process.settings import load_settings
from supervisor.base.errors import Usage
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
    add = parser.add_argument
    add("peer", metavar="RESOURCE|DRIVER", help="extended resource or driver, as in `nodeplane calls`")
    add("-o", "--output", metavar="FILE", help="default: standard output")
    add("--since", type=_seconds, metavar="S", help="begin with the registration in force S seconds ago (the first)")
    beside = parser.add_argument_group("beside a kubelet, without a plane")
    add = beside.add_argument
    add(
        "--kubelet", metavar="DIR", help="record between this kubelet and plugins that are pointed at another directory"
    )
    add("--serve", metavar="DIR", help="the directory for plugins (ROOT/capture)")
    add("--for", dest="seconds", type=_seconds, metavar="S", help="seconds to record (until Ctrl-C)")
    add("--kubeconfig", metavar="FILE", help="an API with the driver's ResourceSlices (none: devices have names only)")
    add("--node-name", metavar="NAME", help="the node of those slices (the host's name)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print or write the script; what the record does not hold is named on standard error."""
    _check(args)
    found = _beside(args) if args.kubelet else _on_plane(args)
    text = script_text(found)
    if args.output:
        write_atomic(Path(args.output), text.encode())  # with mode 0600: it may hold secrets
    else:
        sys.stdout.write(text)
    if found.omitted:
        print(f"nodeplane: {left_out(found)}", file=sys.stderr)
    return 0


def _check(args: argparse.Namespace) -> None:
    """Raises Usage."""
    wanted = {
        "--serve": args.serve,
        "--for": args.seconds,
        "--kubeconfig": args.kubeconfig,
        "--node-name": args.node_name,
    }
    if not args.kubelet and (alone := [flag for flag, value in wanted.items() if value is not None]):
        raise Usage(f"{alone[0]} goes with --kubelet")
    if args.kubelet and args.since is not None:
        raise Usage("--since is for the record of a plane; --kubelet begins a new one")


def _seconds(text: str) -> int:
    number = text.removesuffix("s")
    if not number.isdecimal():
        raise argparse.ArgumentTypeError("must be a whole number of seconds")
    return int(number)


def _on_plane(args: argparse.Namespace) -> Captured:
    """Raises NothingToCapture, NotRunning, NoSuchPeer."""
    layout = layout_from(args)
    records = ask(layout, lambda asking: _read(asking, args.peer))
    since_ns = time.time_ns() - args.since * 10**9 if args.since is not None else 0
    mine = calls_of(args.peer, records)
    if not is_driver(mine):
        return captured(args.peer, mine, since_ns)
    return captured_driver(args.peer, mine, _published_on(layout, args.peer), since_ns)


def _beside(args: argparse.Namespace) -> Captured:
    """Raises NothingToCapture, Usage, SocketInUse."""
    from supervisor.capture.session import record_beside  # loads gRPC

    served = Path(args.serve).absolute() if args.serve else layout_from(args).root / "capture"
    mine = record_beside(args.peer, Path(args.kubelet).absolute(), served, args.seconds)
    if not is_driver(mine):
        return captured(args.peer, mine)
    if args.kubeconfig is None:
        return captured_driver(args.peer, mine, Published())
    node = args.node_name or socket.gethostname().lower()
    return captured_driver(args.peer, mine, _published(Path(args.kubeconfig), args.peer, node))


def _published_on(layout: Layout, driver: str) -> Published:
    return _published(layout.kubeconfig, driver, load_settings(layout.settings).node_name)


def _published(kubeconfig: Path, driver: str, node: str) -> Published:
    """Return a driver's devices by the API; none, and a line on standard error, if it does not answer."""
    from supervisor.dra.sources import read_slices  # slow to load: the client

    try:
        return published(read_slices(kubeconfig, driver), node)
    except NodeplaneError as error:
        print(f"nodeplane: devices have only the names that calls hold: {error}", file=sys.stderr)
        return Published()


async def _read(asking: Asking, peer: str) -> list[CallRecord]:
    """Return the calls of all: a driver's first ones have no name. Raises NoSuchPeer if nothing has the name."""
    records = await read_calls(asking.bus, CallQuery(show_secrets=True))
    if not any(record.peer == peer for record in records):
        await check_peer(asking.bus, peer)
    return records
