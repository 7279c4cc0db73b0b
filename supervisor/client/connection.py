"""Talk to a running plane: a client of the buses of its supervisors."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from protocols.bus import Bus, BusError, BusOptions, Replica, Unavailable
from protocols.messages import devices
from protocols.messages.supervisor import KILL, RESTART, ROOT_NAME, STATUS, ActorName, Empty, KillActor, PlaneStatus
from protocols.process.layout import Layout
from supervisor.base.errors import NotOwner, NotRunning, SupervisorError, UsageError, owner_of
from supervisor.base.groups import ADOPT
from supervisor.report.status import merge
from supervisor.root.lock import supervisors
from supervisor.tree.states import usage_of

R = TypeVar("R")
V = TypeVar("V")
TIMEOUT_S = 10.0


class Asking:
    """Calls to the supervisors below a root; `ask` makes it."""

    def __init__(self, bus: Bus, layout: Layout) -> None:
        self.bus = bus
        self.layout = layout

    def names(self) -> list[str]:
        """Return the running supervisors. Raises NotRunning if there are none."""
        return list(running(self.layout))

    async def status(self, timeout: float = TIMEOUT_S) -> PlaneStatus:
        """Return the status of all groups as one."""
        names = self.names()
        asked = (self.call(name, STATUS, Empty(), PlaneStatus, timeout) for name in names)
        return merge(await asyncio.gather(*asked))

    async def call(
        self, name: str, method: str, request: msgspec.Struct, reply: type[R], timeout: float = TIMEOUT_S
    ) -> R:
        try:
            return await self.bus.call(name, method, request, reply, timeout=timeout)
        except BusError as error:
            if error.code in ("INVALID_ARGUMENT", "NOT_FOUND"):
                raise UsageError(str(error)) from None
            raise SupervisorError(self._stopped(name) or str(error)) from None

    def _stopped(self, name: str) -> str:
        """Return that a signal holds the supervisor of this name, if that is so."""
        pid = supervisors(self.layout.run).get(name, 0)
        usage = usage_of(pid) if pid else None
        stopped = usage is not None and usage.stopped
        return f"{name} is stopped by a signal; `kill -CONT {pid}` lets it go on" if stopped else ""

    async def owner_of(self, instance: str) -> str:
        """Return the supervisor that runs this actor. Raises UsageError if none does."""
        known: list[str] = []
        for name in self.names():
            plane = await self.call(name, STATUS, Empty(), PlaneStatus)
            if any(actor.instance == instance for actor in plane.actors):
                return name
            known += [actor.instance for actor in plane.actors]
        raise UsageError(f"no actor is called {instance!r}; there are: {', '.join(known)}")

    async def kill(self, instance: str, number: int) -> None:
        """Send a signal to an actor. Raises UsageError if no supervisor runs it."""
        await self.call(await self.owner_of(instance), KILL, KillActor(instance, number), Empty)

    async def restart(self, instance: str) -> None:
        """Restart an actor in an orderly way. Raises UsageError if no supervisor runs it."""
        await self.call(await self.owner_of(instance), RESTART, ActorName(instance), Empty)

    async def override_health(self, order: devices.ChaosDevice) -> None:
        """Override the health of a device, or end that. Raises UsageError for a device that nobody reports."""
        check_not_adopted(self.bus)
        await self.call(devices.OWNER, devices.CHAOS_DEVICE, order, devices.Empty)


def running(layout: Layout) -> dict[str, int]:
    """Return name and pid of the supervisors below a root. Raises NotRunning if there are none, NotOwner."""
    check_access(layout)
    pids = supervisors(layout.run)
    if not pids:
        raise NotRunning(f"no plane runs below {layout.root}; start it with `nodeplane up` or give --root")
    return pids


def check_access(layout: Layout) -> None:
    """Raise NotOwner if the plane below a root, running or not, is another user's."""
    try:
        os.listdir(layout.run)
    except PermissionError:
        owner = owner_of(layout.root)
        raise NotOwner(
            f"permission denied: {layout.root} is {owner}'s; run this as {owner}, or give your own plane's --root"
        ) from None
    except OSError:
        return  # it has not been started yet


OPENS = "--pod-resources-socket-group GROUP --pod-resources-socket-mode 660"
"""Flags of `up` and `adopt` that let a group connect."""


def check_socket(path: Path) -> None:
    """Raise NotOwner if this user may not connect to a pod resources socket, which need not exist."""
    try:
        os.stat(path)
        if os.access(path, os.W_OK, effective_ids=True):
            return
    except PermissionError:  # of a directory on the path
        pass
    except OSError:
        return  # nothing is there
    owner = owner_of(path)
    raise NotOwner(f"{path}: permission denied: it is {owner}'s; run this as {owner}, or start its plane with {OPENS}")


def check_not_adopted(bus: Bus) -> None:
    """Raise UsageError if a kubelet is adopted below this root: no device manager of nodeplane will answer."""
    if f"{ROOT_NAME}-{ADOPT}" in supervisors(bus.options.run_dir):
        raise UsageError(
            "this root adopts a kubelet and has no device manager; `nodeplane watch allocatable` and"
            " `nodeplane watch pods` show its devices with the socket `watch` of `nodeplane status` as --socket"
        )


async def held(bus: Bus, stream: str, kind: type[V], owner: str = devices.OWNER) -> dict[str, V]:
    """Return what a stream of the device manager holds now, by key. Raises NotRunning, UsageError."""
    if owner == devices.OWNER:
        check_not_adopted(bus)
    replica = Replica[V]()
    following = bus.follow(owner=owner, stream=stream, sink=replica, type=kind)
    try:
        await following.wait_synced(TIMEOUT_S)
    except Unavailable:
        raise NotRunning("the device manager does not answer; see `nodeplane status`") from None
    finally:
        bus.unfollow(following)
    return replica.items


def ask(layout: Layout, question: Callable[[Asking], Awaitable[R]]) -> R:
    """Run `question` with a connection to the plane below this layout. Raises NotRunning."""

    async def conversation() -> R:
        running(layout)  # or raises NotRunning
        bus = Bus(BusOptions(name="", run_dir=layout.run))
        await bus.start()
        try:
            return await question(Asking(bus, layout))
        finally:
            await bus.close()

    return asyncio.run(conversation())
