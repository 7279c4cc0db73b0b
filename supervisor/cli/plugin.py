"""`nodeplane plugin`: run the example device plugin against a node's device-plugins directory."""

import argparse
import asyncio
import os
from pathlib import Path

from supervisor.cli.flags import layout_from
from supervisor.errors import Usage
from supervisor.plugin.types import PluginOptions

MOST = 100_000


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("plugin", help="run an example device plugin", allow_abbrev=False)
    parser.add_argument("--resource", required=True, metavar="DOMAIN/NAME", help="e.g. example.com/gpu")
    parser.add_argument("--devices", type=_count, default=1, metavar="N", help="how many devices to offer (1)")
    parser.add_argument(
        "--numa", type=_count, default=0, metavar="N", help="spread them over N NUMA nodes (no topology)"
    )
    parser.add_argument("--kubelet-dir", default="", metavar="DIR", help="kubelet directory, if not ROOT/kubelet")
    parser.add_argument(
        "--health-file", type=Path, metavar="FILE", help="lines `DEVICE HEALTH`, followed as it changes"
    )


def run(args: argparse.Namespace) -> int:
    from supervisor.plugin.run import run_plugin  # gRPC is not loaded for every other command

    if not all(args.resource.partition("/")):
        raise Usage(f"--resource {args.resource!r} is not DOMAIN/NAME, such as example.com/gpu")
    options = PluginOptions(
        resource=args.resource,
        devices=args.devices,
        numa=args.numa,
        directory=layout_from(args).device_plugins,
        health_file=args.health_file.absolute() if args.health_file else None,
        pid=os.getpid(),
    )
    asyncio.run(run_plugin(options, _say))
    return 0


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) > MOST:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to {MOST}")
    return int(text)


def _say(line: str) -> None:
    print(line, flush=True)
