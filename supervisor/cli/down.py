"""nodeplane down: stop the plane and wait until it is gone."""

import argparse
import asyncio
import time
from pathlib import Path

from protocols.bus import BusError, Cancelled, Unavailable
from protocols.messages.supervisor import STOP, Empty, StopPlane
from supervisor.cli.ask import TIMEOUT_S, Asking, ask
from supervisor.cli.flags import layout_from
from supervisor.errors import SupervisorError
from supervisor.root.lock import supervisors
from supervisor.tree.groups import GROUPS

WAIT_S = 40.0
LOOK_S = 0.05


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("down", help="stop the plane", allow_abbrev=False)
    parser.add_argument(
        "--keep-containers", action="store_true", help="leave containers running, as a service restart does"
    )


def run(args: argparse.Namespace) -> int:
    layout = layout_from(args)

    async def stop(asking: Asking) -> None:
        for name in sorted(asking.names(), key=_stop_order):
            pid = supervisors(asking.layout.run).get(name, 0)
            await _order(asking, name, StopPlane(containers=not args.keep_containers))
            await _wait_gone(asking, name, pid)

    ask(layout, stop)
    return 0


async def _order(asking: Asking, name: str, order: StopPlane) -> None:
    """A supervisor that ends faster than its answer travels has done what it was asked."""
    try:
        await asking.bus.call(name, STOP, order, Empty, timeout=TIMEOUT_S)
    except (Unavailable, Cancelled):
        return
    except BusError as error:
        raise SupervisorError(str(error)) from None


async def _wait_gone(asking: Asking, name: str, pid: int) -> None:
    """Its locks go a moment before its process does: both are waited for."""
    deadline = time.monotonic() + WAIT_S
    while name in supervisors(asking.layout.run) or _runs(pid):
        if time.monotonic() > deadline:
            raise SupervisorError(f"{name} did not end in {WAIT_S:g} s; see {asking.layout.logs}")
        await asyncio.sleep(LOOK_S)


def _runs(pid: int) -> bool:
    """False also for a zombie: what is left then is its parent's to do."""
    try:
        return pid > 0 and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _stop_order(name: str) -> int:
    """Node first, then watchers, then control."""
    order = {f"supervisor-{group}": -index for index, group in enumerate(GROUPS)}
    return order.get(name, -1)
