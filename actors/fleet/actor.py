"""fleet: thousands of simulated nodes whose devices live, for any API server.

A process of its own, started by `nodeplane fleet run`, as clients of the API: ours, or a real kube-apiserver by its
kubeconfig. No supervisor watches it and it uses no bus. Its pods go through the state machines of a real node
(protocols/lifecycle) on hollow containers, which have no process.

Owns the Node objects, leases and ResourceSlices with its label, and the statuses of the pods on its nodes. kill -9
loses no decision: the next run takes nodes up by their label, and containers and devices of pods from their statuses.
What it may lose is the time between two heartbeats, counted attempts of probes, and back-offs.
"""

import argparse
import asyncio
from pathlib import Path

from protocols.process.layout import Layout

DEFAULT_NAME = "fleet"


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("fleet", help="simulate nodes with devices", allow_abbrev=False)
    orders = parser.add_subparsers(dest="order", required=True)
    run = orders.add_parser("run", help="simulate the nodes of a profile until a signal", allow_abbrev=False)
    run.add_argument("profile", metavar="PROFILE", help="a built-in profile, or a YAML file")
    run.add_argument("--nodes", type=int, metavar="N", help="number of nodes (that of the profile)")
    run.add_argument("--name", default=DEFAULT_NAME, metavar="NAME", help="name of the fleet (fleet)")
    run.add_argument("--kubeconfig", type=Path, metavar="FILE", help="API server to use, if not that of the plane")


def run(args: argparse.Namespace, layout: Layout) -> int:
    """Run the command until a signal; return the exit code. `layout` is that of the plane."""
    from actors.fleet.command import run_fleet

    return asyncio.run(run_fleet(args, layout))
