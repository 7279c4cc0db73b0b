"""`nodeplane plugin`: run the example device plugin against a node's device-plugins directory."""

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from protocols.errors import NodeplaneError
from protocols.layout import layout
from supervisor.cli.roots import default_root
from supervisor.plugin.types import PluginOptions


def add_parser(subparsers: "argparse._SubParsersAction[Any]") -> None:
    parser = subparsers.add_parser("plugin", help="run an example device plugin", description=__doc__)
    parser.add_argument("--resource", required=True, metavar="DOMAIN/NAME", help="e.g. example.com/gpu")
    parser.add_argument("--devices", type=_count, default=1, metavar="N", help="how many devices to offer (1)")
    parser.add_argument(
        "--numa", type=_count, default=0, metavar="N", help="spread them over N NUMA nodes (no topology)"
    )
    parser.add_argument("--root", default=None, help="root directory of the plane")
    parser.add_argument("--kubelet-dir", default="", metavar="DIR", help="kubelet directory, if not ROOT/kubelet")
    parser.add_argument(
        "--health-file", type=Path, metavar="FILE", help="lines `DEVICE HEALTH`, followed as it changes"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from supervisor.plugin.run import run_plugin  # gRPC is not loaded for every other command

    options = PluginOptions(
        resource=args.resource,
        devices=args.devices,
        numa=args.numa,
        directory=layout(args.root or default_root(), args.kubelet_dir).device_plugins.absolute(),
        health_file=args.health_file.absolute() if args.health_file else None,
        pid=os.getpid(),
    )
    try:
        asyncio.run(run_plugin(options, _say))
    except NodeplaneError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _count(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 100_000:
        raise argparse.ArgumentTypeError("must be between 0 and 100000")
    return number


def _say(line: str) -> None:
    print(line, flush=True)
