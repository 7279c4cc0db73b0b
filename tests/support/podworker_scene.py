"""A pod's worker at work in a world of fakes."""

import asyncio
import contextlib
import time
from typing import Any

from actors.podworker.pods.workers.worker import PodWorker, WorkerOptions
from protocols.lifecycle.node.room import NodeRoom
from protocols.lifecycle.pods.types import read_pod
from tests.support.podworker_fakes import FakeDependencies, pod
from tests.support.waiting import until_async

UID = "uid-1"


class Scene:
    """A worker at work on one pod; the stream tells it each change after a turn of the loop."""

    def __init__(self, root, raw=None, **options):
        self.fake = FakeDependencies(root)
        self.raw: Any = raw or pod()
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
        self.fake.runtime.now = self.tick  # type: ignore[method-assign] # its clock is the scene's
        self._last = 0

    def clock(self):
        return time.time_ns() + self.skew_ns

    def tick(self):
        self._last = max(self._last + 1, self.clock())
        return self._last

    def changed(self, uid):
        if not self.lagging:
            asyncio.get_running_loop().call_soon(self.deliver)

    def deliver(self):
        self.fake.pleg.deliver(UID)
        self.worker.wake()

    def delete(self, grace=30):
        ending = {"deletionTimestamp": "x", "deletionGracePeriodSeconds": grace}
        self.worker.update(self.raw | {"metadata": self.raw["metadata"] | ending})

    @property
    def status(self):
        return self.fake.statuses.last if self.fake.statuses.history else {}

    async def until(self, condition, timeout=60.0):
        await until_async("the condition", lambda: self.status, timeout, 0.002, good=lambda status: condition())

    async def running(self, name="a"):
        await self.until(lambda: self.shown(name).get("state", {}).get("running"))

    def shown(self, name):
        lists = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
        entries = [entry for key in lists for entry in self.status.get(key, ())]
        return next((e for e in entries if e["name"] == name), {})


@contextlib.asynccontextmanager
async def at_work(scene):
    task = asyncio.create_task(scene.worker.run())
    try:
        yield scene
        if task.done():
            task.result()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
