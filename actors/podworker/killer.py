"""Stopping containers without waiting for them: one StopContainer in flight each, again when the grace shrinks."""

import asyncio
import time
from collections.abc import Callable

from actors.podworker.ports import World
from actors.podworker.types import ContainerSpec, PodSpec
from protocols.bus import BusError
from protocols.messages.pleg import ContainerStatus


class Killer:
    """`on_end` is called after each call, good or bad: the pod is to be looked at again."""

    def __init__(self, world: World, on_end: Callable[[], None]) -> None:
        self._world = world
        self._on_end = on_end
        self._until: dict[str, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._announced: set[str] = set()

    def stop(self, spec: PodSpec, status: ContainerStatus, grace: int, message: str) -> None:
        """Make sure the container is being stopped, and that it ends within `grace` seconds from now."""
        until = time.monotonic() + grace
        if until >= self._until.get(status.id, float("inf")) - 1.0:
            return
        self._until[status.id] = until
        if status.id not in self._announced:
            self._announced.add(status.id)
            container = next((c for c in spec.containers if c.name == status.name), None)
            self._world.recorder.pod(
                spec, "Normal", "Killing", message, container or ContainerSpec(status.name, "", "app", "")
            )
        task = asyncio.get_running_loop().create_task(self._stop(status.id, grace))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _stop(self, container_id: str, grace: int) -> None:
        try:
            await self._world.runtime.stop_container(container_id, grace)
        except BusError:
            await asyncio.sleep(0.2)  # the next look finds it alive still and stops it again
        finally:
            self._until.pop(container_id, None)
            self._on_end()

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
