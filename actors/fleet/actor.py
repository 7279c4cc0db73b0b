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

from actors.fleet.faults.flags import ORDERS, add_orders
from protocols.process.layout import Layout

DEFAULT_NAME = "fleet"


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("fleet", help="simulate nodes with devices", allow_abbrev=False)
    orders = parser.add_subparsers(dest="order", required=True)
    run = orders.add_parser("run", help="simulate nodes until a signal, or play a scenario", allow_abbrev=False)
    run.add_argument("what", metavar="PROFILE|SCENARIO", help="a name that `profiles` lists, or a YAML file")
    run.add_argument("--nodes", type=int, metavar="N", help="number of nodes, if not the profile's or scenario's")
    run.add_argument("--cpu", action="append", default=[], metavar="PROCESS", help="count the CPU of this process too")
    run.add_argument("-o", "--output", choices=["table", "json"], default="table", help="figures of a scenario (table)")
    record = orders.add_parser("record", help="print a profile of an API's nodes and slices", allow_abbrev=False)
    record.add_argument("--anonymous", action="store_true", help="replace names that identify the owner")
    record.add_argument("--selector", default="", metavar="LABELS", help="nodes with these labels (all)")
    delete = orders.add_parser("delete", help="delete a fleet's nodes, slices and leases", allow_abbrev=False)
    orders.add_parser("profiles", help="list the profiles and scenarios that come along", allow_abbrev=False)
    run.add_argument("--script", type=Path, metavar="FILE", help="YAML: faults and their times; - = standard input")
    run.add_argument("--seed", type=int, metavar="N", help="number that decides what faults hit (that of the script)")
    add_orders(orders, DEFAULT_NAME)
    for order in (run, delete):
        order.add_argument("--name", default=DEFAULT_NAME, metavar="NAME", help="name of the fleet (fleet)")
    for order in (run, record, delete):
        order.add_argument("--kubeconfig", type=Path, metavar="FILE", help="API server to use, if not the plane's")


def run(args: argparse.Namespace, layout: Layout) -> int:
    """Run the command; return the exit code. `layout` is that of the plane."""
    if args.order in ORDERS:
        from actors.fleet.faults.orders import give_order

        return asyncio.run(give_order(args, layout))
    from actors.fleet import command  # --help does without it

    if args.order == "profiles":
        return command.list_profiles()
    orders = {"run": command.run_fleet, "record": command.record_profile, "delete": command.delete_fleet}
    return asyncio.run(orders[args.order](args, layout))
