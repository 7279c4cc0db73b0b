"""nodeplane scale: run more or fewer API processes, or nodes."""

import argparse

from protocols.messages.supervisor import ROOT_NAME, SCALE, STATUS, Empty, PlaneStatus, ScaleActor
from supervisor.cli.ask import Asking, ask
from supervisor.cli.flags import layout_from
from supervisor.errors import Usage
from supervisor.tree.groups import GROUPS, NODE, WATCHER, check_nodes, check_watchers

SCALE_S = 60.0
SCALE_NODES_S = 60.0
FIRST = f"{ROOT_NAME}-{WATCHER}"


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("scale", help="API processes, or nodes", allow_abbrev=False)
    parser.add_argument("actor", choices=(WATCHER, NODE))
    parser.add_argument("count", type=int)


def run(args: argparse.Namespace) -> int:
    if args.actor == NODE:
        check_nodes(args.count)
        ask(layout_from(args), lambda asking: scale_nodes(asking, args.count))
        return 0
    check_watchers(args.count)
    ask(layout_from(args), lambda asking: scale_watchers(asking, args.count))
    return 0


async def scale_nodes(asking: Asking, count: int) -> None:
    """They are the work of whoever runs the first node."""
    names = asking.names()
    owner = ROOT_NAME if ROOT_NAME in names else f"{ROOT_NAME}-{NODE}"
    if owner not in names:
        raise Usage("no node group runs below this root; start it with `python -m supervisor node`")
    await asking.call(owner, SCALE, ScaleActor(actor=NODE, count=count), Empty, timeout=SCALE_NODES_S)


async def scale_watchers(asking: Asking, count: int) -> None:
    """honcho may run several watcher lines: the first one runs what the others do not."""
    first, *others = watcher_supervisors(asking.names())
    elsewhere = [actor for name in others for actor in await _api_processes(asking, name)]
    if count <= len(elsewhere):
        lines = f"{len(elsewhere)} run in other watcher lines of honcho"
        raise Usage(f"{count} API processes are too few: {lines}; use {len(elsewhere) + 1} or more")
    request = ScaleActor(actor=WATCHER, count=count - len(elsewhere))
    await asking.call(first, SCALE, request, Empty, timeout=SCALE_S)


async def _api_processes(asking: Asking, name: str) -> list[str]:
    plane = await asking.call(name, STATUS, Empty(), PlaneStatus)
    return [actor.instance for actor in plane.actors if actor.group == WATCHER]


def watcher_supervisors(names: list[str]) -> list[str]:
    """Those that run API processes, the first line first; raises Usage if none does."""
    others = {f"{ROOT_NAME}-{group}" for group in GROUPS if group != WATCHER}
    mine = sorted(set(names) - others, key=lambda name: (len(name), name) if name != FIRST else (0, name))
    if not mine:
        raise Usage("no watcher group runs below this root; start it with `python -m supervisor watcher`")
    return mine
