"""The kernel's own file notifications: inotify descriptors are read at times of the world."""

import os
import select
from typing import TYPE_CHECKING, Any

from tests.simulation.world.loop import SimLoop
from tests.simulation.world.patching import patch

if TYPE_CHECKING:
    from tests.simulation.world.process import Process
    from tests.simulation.world.world import World

POLL_S = 0.01


class Notifications:
    """Looks for readable descriptors every POLL_S: which changes have happened by then depends on the seed alone."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._poll = select.epoll()
        self._readers: dict[int, _Reader] = {}
        self._made = 0
        notifications, before, remove = self, SimLoop.add_reader, SimLoop.remove_reader

        def add(loop: SimLoop, descriptor: int, callback: Any, *given: Any) -> None:
            if _is_inotify(descriptor):
                notifications.add(loop._process, descriptor, lambda: callback(*given))
            else:
                before(loop, descriptor, callback, *given)

        def removed(loop: SimLoop, descriptor: int) -> bool:
            notifications.forget(descriptor)
            return remove(loop, descriptor)

        patch(SimLoop, "add_reader", add)
        patch(SimLoop, "remove_reader", removed)

    def begin(self) -> None:
        self._world.at(POLL_S, None, self._look)

    def add(self, process: "Process", descriptor: int, callback: Any) -> None:
        self._made += 1
        self._readers[descriptor] = _Reader(self, process, descriptor, callback, self._made)
        self._poll.register(descriptor, select.EPOLLIN)

    def forget(self, descriptor: int) -> None:
        if (reader := self._readers.pop(descriptor, None)) is not None:
            self._poll.unregister(descriptor)
            reader.process.ends.pop(reader, None)

    def _look(self) -> None:
        self._world.at(POLL_S, None, self._look)
        found = [self._readers[descriptor] for descriptor, _ in self._poll.poll(0)]
        for reader in sorted(found, key=lambda each: each.number):
            if not reader.due:
                reader.due = True
                self._world.at(0.0, reader.process, reader.read)


class _Reader:
    def __init__(
        self, notifications: Notifications, process: "Process", descriptor: int, callback: Any, number: int
    ) -> None:
        self.process, self.number, self.due = process, number, False
        self._notifications, self._descriptor, self._callback = notifications, descriptor, callback
        process.ends[self] = None

    def read(self) -> None:
        self.due = False
        if self in self.process.ends:  # else it was removed meanwhile, which in asyncio cancels the call
            self._callback()

    def die(self) -> None:
        self._notifications.forget(self._descriptor)
        os.close(self._descriptor)


def _is_inotify(descriptor: int) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}") == "anon_inode:inotify"
    except OSError:
        return False
