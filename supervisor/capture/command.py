"""`nodeplane capture RESOURCE|DRIVER`: write the script that plays the recorded calls of a plugin or driver again."""

import argparse
import os
import socket
import sys
import time
from pathlib import Path

from protocols.errors import NodeplaneError
from protocols.kube.errors import SHAPE_ERRORS
from protocols.messages.calls import CallRecord
from protocols.process.files import is_special, write_output
from protocols.process.layout import Layout
from protocols.process.settings import load_settings
from protocols.recording.frames import RecordingInvalid
from supervisor.base.errors import UsageError
from supervisor.calls.client import CallQuery, read_calls
from supervisor.calls.peers import check_peer
from supervisor.capture.devices import Published, published, published_over_time
from supervisor.capture.driver import calls_of, captured_driver, is_driver
from supervisor.capture.parts import Captured, left_out, script_text
from supervisor.capture.script import captured
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
    add("-o", "--output", metavar="FILE", default="-", help="- = standard output, the default")
    add("--since", type=_seconds, metavar="S", help="begin with the registration in force S seconds ago (the first)")
    add("--replay", metavar="FILE", help="the calls of a recording instead (up --record), and its ResourceSlices")
    add("--node-name", metavar="NAME", help="its node (the first); beside a kubelet that of slices (the host's name)")
    beside = parser.add_argument_group("beside a kubelet, without a plane")
    add = beside.add_argument
    add(
        "--kubelet", metavar="DIR", help="record between this kubelet and plugins that are pointed at another directory"
    )
    add("--serve", metavar="DIR", help="the directory for plugins (ROOT/capture)")
    add("--for", dest="seconds", type=_seconds, metavar="S", help="seconds to record (until Ctrl-C)")
    add("--kubeconfig", metavar="FILE", help="an API with the driver's ResourceSlices (none: devices have names only)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print or write the script; what the record does not hold is named on standard error."""
    _check(args)
    capture = _beside(args) if args.kubelet else _in_recording(args) if args.replay else _on_plane(args)
    text = script_text(capture)
    if args.output == "-":
        sys.stdout.write(text)
    else:
        write_output(Path(args.output), text)  # with mode 0600: it may hold secrets
    if capture.omitted:
        print(f"nodeplane: {left_out(capture)}", file=sys.stderr)
    return 0


def _check(args: argparse.Namespace) -> None:
    """Raises UsageError."""
    wanted = {
        "--serve": args.serve,
        "--for": args.seconds,
        "--kubeconfig": args.kubeconfig,
        "--node-name": args.node_name if not args.replay else None,
    }
    if not args.kubelet and (alone := [flag for flag, value in wanted.items() if value is not None]):
        raise UsageError(f"{alone[0]} goes with --kubelet")
    if args.kubelet and args.since is not None:
        raise UsageError("--since is for the record of a plane; --kubelet begins a new one")
    if args.kubelet and args.replay:
        raise UsageError("--replay reads a recording, --kubelet begins one; give one of them")
    if args.output != "-":
        _check_output(Path(args.output))


def _check_output(path: Path) -> None:
    """Raise UsageError for a file that cannot be written, before anything is recorded for it."""
    if path.is_dir() or not os.access(path if is_special(path) else path.absolute().parent, os.W_OK):
        raise UsageError(f"--output {path} cannot be written: give a file in a directory that can")


def _seconds(text: str) -> int:
    number = text.removesuffix("s")
    if not number.isdecimal():
        raise argparse.ArgumentTypeError("must be a whole number of seconds")
    return int(number)


def _on_plane(args: argparse.Namespace) -> Captured:
    """Raises NothingToCapture, NotRunning, NoSuchPeer."""
    layout = layout_from(args)
    records = ask(layout, lambda asking: _read(asking, args.peer))
    until_ns = time.time_ns()
    mine = calls_of(args.peer, records)
    if not is_driver(mine):
        return captured(args.peer, mine, _since(args, until_ns))
    return captured_driver(args.peer, mine, _published_on(layout, args.peer), _since(args, until_ns), until_ns)


def _since(args: argparse.Namespace, until_ns: int) -> int:
    return until_ns - args.since * 10**9 if args.since is not None else 0


def _in_recording(args: argparse.Namespace) -> Captured:
    """Raises NothingToCapture, RecordingInvalid, UsageError."""
    from supervisor.base.recordings import opened
    from supervisor.capture.recorded import calls_in, versions_in  # slow to load

    recording = opened(args.replay)
    node, until_ns = args.node_name or recording.header.node, recording.end_ms * 10**6
    mine = calls_of(args.peer, calls_in(recording, node))
    if not is_driver(mine):
        return captured(args.peer, mine, _since(args, until_ns))
    try:
        known = published_over_time(versions_in(recording, args.peer), node)
    except SHAPE_ERRORS as error:
        raise RecordingInvalid(f"a ResourceSlice of the recording has the wrong shape: {error!r:.200}") from None
    return captured_driver(args.peer, mine, known, _since(args, until_ns), until_ns)


def _beside(args: argparse.Namespace) -> Captured:
    """Raises NothingToCapture, UsageError, SocketInUse."""
    from supervisor.capture.session import record_beside  # loads gRPC

    served = Path(args.serve).absolute() if args.serve else layout_from(args).root / "capture"
    access = Path(args.kubeconfig) if args.kubeconfig is not None else None
    mine, versions = record_beside(args.peer, Path(args.kubelet).absolute(), served, args.seconds, access)
    if not is_driver(mine):
        return captured(args.peer, mine)
    node, until_ns, known = args.node_name or socket.gethostname().lower(), time.time_ns(), Published()
    if versions:
        known = published_over_time(versions, node)
    elif access is not None:
        known = _published(access, args.peer, node)
    return captured_driver(args.peer, mine, known, until_ns=until_ns)


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
