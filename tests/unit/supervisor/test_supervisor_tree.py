"""The tree without a process: what it does when the forkserver takes no orders."""

import asyncio
import os
import socket
import subprocess
from pathlib import Path
from typing import cast

from supervisor.base.groups import ChildSpec, SupervisionLimits
from supervisor.forkserver import wire
from supervisor.forkserver.client import ForkClient
from supervisor.tree.states import ChildState, usage_of
from supervisor.tree.tree import Tree, TreeOptions

LIMITS = SupervisionLimits(backoff_s=0.01)


class Forkserver:
    """Takes orders, or does not; its reports come through a real socket, which the tree watches."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self.takes, self.pid, self.orders, self.signals = True, 1, list[wire.Order](), list[int]()

    def fileno(self) -> int:
        return self._ours.fileno()

    def send(self, order: wire.Order) -> bool:
        self.orders += [order] if self.takes else []
        return self.takes

    def signal(self, number: int) -> None:
        self.signals.append(number)

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()


def tree(forkserver: Forkserver, said: list[str], logs: Path) -> Tree:
    spec = ChildSpec(instance="a", actor="a", group="node", module="m")
    options = TreeOptions(
        specs=(spec,), argv=(), logs=logs, root=logs, limits=LIMITS, on_failed=said.append, say=said.append
    )
    return Tree(options, cast(ForkClient, forkserver))


async def test_order_not_taken_is_repeated(tmp_path: Path) -> None:
    forkserver, said = Forkserver(), list[str]()
    forkserver.takes = False
    made = tree(forkserver, said, tmp_path)
    made.start()
    child = made.child("a")
    assert (child.state, child.reason) == (ChildState.BACKOFF, "the forkserver takes no orders")
    forkserver.takes = True
    async with asyncio.timeout(60):
        while child.state is not ChildState.STARTING:
            made.changed.clear()
            await made.changed.wait()
    assert [order.instance for order in forkserver.orders if isinstance(order, wire.Fork)] == ["a"]
    assert said == []
    made.close()


def test_ended_process_counts_as_working() -> None:
    """A forkserver that is stopped reports no exit; what is dead must not be called hung meanwhile."""
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        usage = usage_of(process.pid)
    assert usage is not None
    assert usage.runnable


async def test_added_child_precedes_the_one_it_serves(tmp_path: Path) -> None:
    forkserver = Forkserver()
    made = tree(forkserver, [], tmp_path)
    made.start()
    for instance, before in (("c", ""), ("b", "c"), ("d", "unknown")):
        made.add(ChildSpec(instance=instance, actor=instance, group="node", module="m"), before=before)
    assert list(made.children) == ["a", "b", "c", "d"]
    assert [order.instance for order in forkserver.orders if isinstance(order, wire.Fork)] == ["a", "c", "b", "d"]
    made.close()
