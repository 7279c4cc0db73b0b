"""Orders to a running plane: `nodeplane down`, `restart` and `scale`."""

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from protocols.bus import BusError, Cancelled, Unavailable
from protocols.errors import NodeplaneError
from protocols.messages.supervisor import STOP, Empty, StopPlane
from protocols.process.files import is_running
from protocols.process.layout import Layout, layout
from supervisor.base.errors import NotRunning, SupervisorError
from supervisor.base.groups import GROUPS, NODE, WATCHER, check_nodes, check_watchers
from supervisor.base.progress import Progress, progress
from supervisor.base.terminal import working
from supervisor.cli.flags import layout_from
from supervisor.client.connection import TIMEOUT_S, Asking, ask, check_access
from supervisor.client.scaling import scale_nodes, scale_watchers
from supervisor.plane.orphaned import orphaned, take_over, unmount
from supervisor.root.leftovers import orphaned_containers
from supervisor.root.lock import supervisors

STOP_TIMEOUT_S = 40.0
POLL_S = 0.05


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    stopping = subparsers.add_parser("down", help="stop the plane", allow_abbrev=False)
    stopping.add_argument(
        "--keep-containers", action="store_true", help="leave containers running, as a service restart does"
    )
    stopping.set_defaults(run=down)
    restarting = subparsers.add_parser("restart", help="restart one actor", allow_abbrev=False)
    restarting.add_argument("actor")
    restarting.set_defaults(run=_restart)
    scaling = subparsers.add_parser("scale", help="API processes, or nodes", allow_abbrev=False)
    scaling.add_argument("actor", choices=(WATCHER, NODE))
    scaling.add_argument("count", type=int)
    scaling.set_defaults(run=_scale)


def down(args: argparse.Namespace) -> int:
    """Stop the plane and wait until it is gone. Without one, stop containers that a plane has left behind."""
    where = layout_from(args)
    check_access(where)
    ran = bool(supervisors(where.run))
    if ran:
        _stop(where, containers=not args.keep_containers)
    elif not where.root.exists():
        raise NotRunning(f"{where.root} does not exist; give the plane's --root")
    orphans = {} if args.keep_containers else orphaned(where.root)  # also of a supervisor that was killed meanwhile
    if not (orphans or args.keep_containers):
        unmount(where.root)
    if not (orphans or ran):
        print(f"no plane runs below {where.root}", file=sys.stderr)
    for root, count in orphans.items():
        _stop_orphans(layout(str(root)), count)
    return 0


def _stop_orphans(where: Layout, count: int) -> None:
    containers = f"{count} container{'s' if count > 1 else ''}"
    print(f"stopping {containers} below {where.root} that a plane has left running", file=sys.stderr)
    try:
        take_over(where)
    except SupervisorError:
        if orphaned_containers(where.root) and not supervisors(where.run):
            raise  # else another command has taken them over
    _stop(where, containers=True)


def _stop(where: Layout, *, containers: bool) -> None:
    async def stop(asking: Asking) -> None:
        names = sorted(asking.names(), key=_stop_order)
        _let_go_on(supervisors(asking.layout.run).values())
        actors = await _actors(asking)
        with progress("stopping the plane", len(actors) or None) as shown:
            for name in names:
                pid = supervisors(asking.layout.run).get(name, 0)
                await _order_stop(asking, name, StopPlane(containers=containers))
                await _wait_gone(asking, name, pid, lambda: _show_left(shown, actors))

    with suppress(NotRunning):  # it has ended meanwhile
        ask(where, stop)


def _let_go_on(pids: Iterable[int]) -> None:
    """Send SIGCONT: what a signal has stopped does not end otherwise."""
    for pid in pids:
        with suppress(OSError):  # it has just ended
            os.kill(pid, signal.SIGCONT)


async def _actors(asking: Asking) -> dict[str, int]:
    """Return the pids of the actors, for the progress; none of a plane that cannot report them."""
    try:
        return {actor.instance: actor.pid for actor in (await asking.status()).actors if actor.pid}
    except NodeplaneError:
        return {}


def _show_left(shown: Progress, actors: Mapping[str, int]) -> None:
    left = [name for name, pid in actors.items() if is_running(pid)]
    shown.at(f"stopping {', '.join(reversed(left)) or 'the supervisor'}", len(actors) - len(left))


async def _order_stop(asking: Asking, name: str, order: StopPlane) -> None:
    """Order the stop; a supervisor that ends before its answer arrives has obeyed."""
    try:
        await asking.bus.call(name, STOP, order, Empty, timeout=TIMEOUT_S)
    except (Unavailable, Cancelled):
        return
    except BusError as error:
        raise SupervisorError(str(error)) from None


async def _wait_gone(asking: Asking, name: str, pid: int, waiting: Callable[[], None]) -> None:
    """Wait for the locks, which are released first, and for the process."""
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while name in supervisors(asking.layout.run) or is_running(pid):
        if time.monotonic() > deadline:
            raise SupervisorError(f"{name} did not end in {STOP_TIMEOUT_S:g} s; see {asking.layout.logs}")
        waiting()
        await asyncio.sleep(POLL_S)


def _stop_order(name: str) -> int:
    """Return the sort key of a supervisor: node first, then watchers, then control."""
    order = {f"supervisor-{group}": -index for index, group in enumerate(GROUPS)}
    return order.get(name, -1)


def _restart(args: argparse.Namespace) -> int:
    ask(layout_from(args), lambda asking: asking.restart(args.actor))
    return 0


def _scale(args: argparse.Namespace) -> int:
    if args.actor == NODE:
        check_nodes(args.count)
    else:
        check_watchers(args.count)
    change = scale_nodes if args.actor == NODE else scale_watchers
    with working(f"scaling {args.actor} to {args.count}"):
        ask(layout_from(args), lambda asking: change(asking, args.count))
    return 0
