"""The tree without a process: what it does when the forkserver takes no orders."""

import asyncio
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from supervisor.base.errors import ForkserverLost
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

    def reports(self, on_report: Callable[[wire.Report], None]) -> bool:
        return False  # the real one is gone when its socket can be read without a report

    def die(self) -> None:
        self._theirs.close()

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
    await made.stop(["forgotten"], 0.0)
    child.state = ChildState.STOPPING
    made.restart("a")
    assert not child._again, "a shutdown would wait for it"
    child.state = ChildState.BACKOFF
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


@pytest.mark.parametrize(("deaths", "reason"), [(1, "no memory"), (5, "the forkserver died 5 times in a minute")])
async def test_forkserver_not_replaced_ends_the_plane_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deaths: int, reason: str
) -> None:
    """It dies too often, or there is no memory for another one."""
    said, forkservers = list[str](), [Forkserver() for _ in range(deaths)]
    made = tree(forkservers[0], said, tmp_path)
    left = iter(forkservers[1:])

    def launch(options: TreeOptions) -> ForkClient:
        try:
            return cast(ForkClient, next(left))
        except StopIteration:
            raise ForkserverLost("no memory") from None

    monkeypatch.setattr(made, "launch", launch)
    made.start()
    async with asyncio.timeout(60):
        for forkserver in forkservers:
            forkserver.die()
            while forkserver.fileno() >= 0:
                made.changed.clear()
                await made.changed.wait()
    assert said[-1].startswith(reason)
    made.close()


@pytest.mark.parametrize("late", [False, True])
def test_forgotten_child_that_does_not_end_is_killed(tmp_path: Path, late: bool) -> None:
    """A node that takes longer than its grace period to stop, or to start, must not go on without a supervisor."""

    async def stop_and_forget(pid: int) -> None:
        made = tree(Forkserver(), [], tmp_path)
        made.start()
        if not late:
            made._report(wire.Forked("a", pid))
        await made.stop(["a"], 0.0)
        assert process.poll() is None
        made.forget("a")
        if late:
            made._report(wire.Forked("a", pid))
        made.close()
        assert made.children == {}

    with subprocess.Popen(["sh", "-c", "trap '' TERM; echo; exec sleep 600"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            asyncio.run(stop_and_forget(process.pid))
            assert process.wait(60) == -signal.SIGKILL
        finally:
            process.kill()
