"""`nodeplane watch pods|allocatable`: follow the pod resources watch and print each event."""

import argparse
import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from protocols.errors import NodeplaneError
from supervisor.cli.flags import layout_from
from supervisor.errors import SupervisorError


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("watch", help="follow the pod-resources watch", allow_abbrev=False)
    parser.add_argument("what", choices=("pods", "allocatable"))
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.add_argument("--kubelet-dir", default="", metavar="DIR", help="kubelet directory, if not ROOT/kubelet")
    parser.add_argument("--socket", default="", metavar="SOCK", help="any server of the API, if not the plane's own")
    parser.add_argument(
        "--snapshot",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="first show what is there already (default)",
    )


def run(args: argparse.Namespace) -> int:
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_follow(args))
    return 0


async def _follow(args: argparse.Namespace) -> None:
    from protocols.podresources import PodResources, WatchOptions  # gRPC is not loaded for every other command
    from supervisor.watch.show import printer

    show = printer(args.what, args.output)
    options = WatchOptions(snapshot=args.snapshot, on_break=lambda line: print(f"# {line}", flush=True))
    socket = args.socket or layout_from(args).pod_resources_socket
    async with PodResources(socket) as node:
        events: AsyncIterator[Any] = node.watch(options) if args.what == "pods" else node.watch_allocatable(options)
        try:
            async for event in events:
                show(event)
        except NodeplaneError as error:
            raise SupervisorError(f"{socket}: {error}") from None
