"""`nodeplane watch pods|allocatable`: follow the pod resources watch and print each event."""

import argparse
import asyncio
import contextlib

from supervisor.cli.flags import layout_from


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("watch", help="follow the pod-resources watch", allow_abbrev=False)
    parser.add_argument("what", choices=("pods", "allocatable"))
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.add_argument("--kubelet-dir", default="", metavar="DIR", help="kubelet directory, if not ROOT/kubelet")
    parser.add_argument(
        "--snapshot",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="first show what is there already (default)",
    )


def run(args: argparse.Namespace) -> int:
    from supervisor.watch.follow import FollowOptions, follow  # gRPC is not loaded for every other command
    from supervisor.watch.show import printer

    options = FollowOptions(
        socket=layout_from(args).pod_resources_socket,
        what=args.what,
        snapshot=args.snapshot,
        show=printer(args.what, args.output),
        say=lambda line: print(line, flush=True),
    )
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(follow(options))
    return 0
