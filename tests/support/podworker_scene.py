"""A pod's worker at work in a world of fakes."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from actors.podworker.pods.workers.worker import PodWorker, WorkerOptions
from protocols.kinds import views
from protocols.kube.meta import STATUS_LISTS
from protocols.lifecycle.node.room import NodeRoom
from protocols.lifecycle.pods.types import read_pod
from tests.support.podworker_fakes import FakeDependencies, pod
from tests.support.waiting import until_async

UID = "uid-1"


class Scene:
    """A worker at work on one pod; the stream tells it each change after a turn of the loop."""

    def __init__(self, root: Path, raw: views.Pod | None = None, **options: Any) -> None:
        self.fake = FakeDependencies(root)
        self.raw = raw or pod()
        self.room = options.pop("room", None) or NodeRoom()
        self.skew_ns = 0
        self.lagging = False
        spec = options.pop("spec", None) or read_pod(self.raw)
        self.worker = PodWorker(
            WorkerOptions(
                spec=spec,
                deps=self.fake.deps,
                runtime_name=lambda: "nodeplane",
                clock=self.clock,
                room=self.room,
                **options,
            )
        )
        self.fake.runtime.changed = self.changed
        self.fake.runtime.clock = self.clock

    def clock(self) -> int:
        return time.time_ns() + self.skew_ns

    def changed(self, uid: str) -> None:
        if not self.lagging:
            asyncio.get_running_loop().call_soon(self.deliver)

    def deliver(self) -> None:
        self.fake.pleg.deliver(UID)
        self.worker.wake()

    def delete(self, grace: int = 30) -> None:
        ending: views.ObjectMeta = {"deletionTimestamp": "x", "deletionGracePeriodSeconds": grace}
        self.worker.update(self.raw | {"metadata": self.raw["metadata"] | ending})

    @property
    def status(self) -> views.PodStatus:
        return self.fake.statuses.last if self.fake.statuses.history else {}

    async def until(self, condition: Callable[[], object], timeout: float = 60.0) -> None:
        await until_async("the condition", lambda: self.status, timeout, 0.002, good=lambda status: condition())

    async def running(self, name: str = "a") -> None:
        await self.until(lambda: self.shown(name).get("state", {}).get("running"))

    def shown(self, name: str) -> views.ContainerStatus:
        entries = [entry for key in STATUS_LISTS for entry in self.status.get(key, ())]
        none: views.ContainerStatus = {}
        return next((e for e in entries if e["name"] == name), none)


@contextlib.asynccontextmanager
async def at_work(scene: Scene) -> AsyncIterator[Scene]:
    task = asyncio.create_task(scene.worker.run())
    try:
        yield scene
        if task.done():
            task.result()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
