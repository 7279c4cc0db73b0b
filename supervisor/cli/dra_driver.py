"""`nodeplane dra-driver`: run the example DRA driver against a node."""

import argparse
import asyncio
import os
import re
import socket
from pathlib import Path

from protocols.layout import Layout
from supervisor.cli.flags import layout_from
from supervisor.errors import Usage

MOST = 10_000
MOST_PARTITIONS = 16
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("dra-driver", help="run an example DRA driver", allow_abbrev=False)
    parser.add_argument("--driver", required=True, metavar="NAME", help="a DNS name, e.g. gpu.example.com")
    parser.add_argument("--devices", type=_count(MOST), default=1, metavar="N", help="how many devices to offer (1)")
    parser.add_argument("--numa", type=_count(64), default=0, metavar="N", help="spread them over N NUMA nodes")
    parser.add_argument(
        "--partitions",
        type=_count(MOST_PARTITIONS),
        default=0,
        metavar="N",
        help="each device may also be given out in N parts (shared counters)",
    )
    parser.add_argument("--node-name", default="", metavar="NAME", help="the node (that of ROOT, or the host's name)")
    parser.add_argument("--kubelet-dir", default="", metavar="DIR", help="kubelet directory, if not ROOT/kubelet")
    parser.add_argument("--cdi-dir", default="", metavar="DIR", help="where CDI files are written (ROOT/cdi)")
    parser.add_argument("--kubeconfig", default="", metavar="FILE", help="how to reach the API (ROOT/kubeconfig)")
    parser.add_argument("--health-file", type=Path, metavar="FILE", help="lines `DEVICE HEALTH [MESSAGE]`, followed")
    parser.add_argument(
        "--health-timeout", type=_count(86400), default=30, metavar="S", help="silence that makes health unknown (30)"
    )


def run(args: argparse.Namespace) -> int:
    from supervisor.dra_driver.run import run_driver  # gRPC is not loaded for every other command
    from supervisor.dra_driver.types import DriverOptions

    if len(args.driver) > 63 or not _NAME.fullmatch(args.driver):
        raise Usage(f"--driver {args.driver!r} is not a DNS name, such as gpu.example.com")
    layout = layout_from(args)
    options = DriverOptions(
        driver=args.driver,
        devices=args.devices,
        node=args.node_name or _node_name(layout),
        kubelet=layout.kubelet,
        cdi=Path(args.cdi_dir).absolute() if args.cdi_dir else layout.cdi,
        kubeconfig=Path(args.kubeconfig).absolute() if args.kubeconfig else layout.kubeconfig,
        numa=args.numa,
        partitions=args.partitions,
        health_file=args.health_file.absolute() if args.health_file else None,
        health_timeout=max(1, args.health_timeout),
        pid=os.getpid(),
    )
    asyncio.run(run_driver(options, _say))
    return 0


def _node_name(layout: Layout) -> str:
    from protocols.errors import SettingsInvalid
    from protocols.settings import load_settings

    try:
        return load_settings(layout.settings).node_name
    except SettingsInvalid:
        return socket.gethostname().lower()


def _count(most: int) -> "type[int]":
    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) > most:
            raise argparse.ArgumentTypeError(f"must be a number from 0 to {most}")
        return int(text)

    return parse  # type: ignore[return-value]  # argparse takes any callable


def _say(line: str) -> None:
    print(line, flush=True)
