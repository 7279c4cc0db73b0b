"""Start a plane: `nodeplane up`, and `nodeplane adopt` beside a real kubelet."""

import argparse

import msgspec

from protocols.process.settings import Adopt
from supervisor.base.errors import UsageError
from supervisor.base.groups import ADOPT
from supervisor.base.options import PlaneOptions, layout_of
from supervisor.base.values import socket_path
from supervisor.cli.flags import add_plane_flags, plane_options
from supervisor.plane.start import start

KUBELET = "/var/lib/kubelet/pod-resources/kubelet.sock"
RUNTIME = "unix:///run/containerd/containerd.sock"
MIN_POLL_S = 1.0
READY_S, LONGEST_READY_S = 60.0, 86400.0
SHARED_FLAGS = frozenset(
    (
        "root",
        "pod_resources_qps",
        "pod_resources_watchers",
        "pod_resources_health_address",
        "pod_resources_socket_mode",
        "pod_resources_socket_group",
        "metrics_port",
        "metrics_address",
        "feature_gates",
        "log_level",
    )
)
"""Flags of `up` that `adopt` shares."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    starting = subparsers.add_parser("up", help="start the plane", allow_abbrev=False)
    add_plane_flags(starting)
    starting.add_argument("--detach", action="store_true", help="return when the node is Ready; the plane goes on")
    _add_timeout(starting)
    starting.set_defaults(run=up)
    adopting = subparsers.add_parser("adopt", help="serve the watch of a real kubelet", allow_abbrev=False)
    add = adopting.add_argument
    add("--pod-resources", default=KUBELET, metavar="SOCK", help=f"kubelet's socket (default {KUBELET})")
    add("--cri", "--runtime", dest="cri", default=RUNTIME, metavar="CRI_SOCK", help=f"default {RUNTIME}")
    add("--socket", default="", metavar="SOCK", help="the one to serve (default ROOT/pod-resources/kubelet.sock)")
    add("--poll", default=10.0, type=float, metavar="S", help="seconds between polls without an event (default 10)")
    add_plane_flags(adopting, SHARED_FLAGS)
    add("--detach", action="store_true", help="return when it serves; it goes on")
    _add_timeout(adopting)
    adopting.set_defaults(run=_adopt)


def _add_timeout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--timeout",
        default=READY_S,
        type=float,
        metavar="S",
        help="with --detach: end with 1 when no further actor gets ready for S seconds (default 60)",
    )


def up(args: argparse.Namespace) -> int:
    """Run the whole plane in one process tree."""
    return start(plane_options(args), detach=args.detach, ready_s=_timeout(args.timeout))


def _timeout(value: float) -> float:
    if not 0 < value <= LONGEST_READY_S:
        raise UsageError(f"--timeout {value:g}: use more than 0, and at most {LONGEST_READY_S:g} seconds")
    return value


def _adopt(args: argparse.Namespace) -> int:
    shared = plane_options(args)
    adopted = Adopt(
        pod_resources=socket_path(args.pod_resources, "--pod-resources"),
        socket=_served(args.socket, shared),
        poll_s=_seconds(args.poll),
    )
    if adopted.socket == adopted.pod_resources:
        raise UsageError(f"--socket {adopted.socket} is kubelet's own; choose another path")
    runtime = args.cri if args.cri.startswith("unix://") else f"unix://{socket_path(args.cri, '--runtime')}"
    options = msgspec.structs.replace(shared, runtime=runtime, adopt=adopted)
    return start(options, group=ADOPT, detach=args.detach, ready_s=_timeout(args.timeout))


def _served(path: str, shared: PlaneOptions) -> str:
    return socket_path(path or str(layout_of(shared).root / "pod-resources" / "kubelet.sock"), "--socket")


def _seconds(value: float) -> float:
    if not MIN_POLL_S <= value <= 3600:
        raise UsageError(f"--poll {value:g} is no pause; use {MIN_POLL_S:g} to 3600 seconds")
    return value
