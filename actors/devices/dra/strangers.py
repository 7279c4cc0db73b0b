"""Pods that ended while nobody looked: what they left with drivers is given back, as often as it takes."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from actors.devices.dra.types import DraLimits
from protocols.errors import NodeplaneError


@dataclass(frozen=True)
class StrangersOptions:
    pods: Callable[[], set[str]]
    """Uids of all pods that claims are kept for."""
    unprepare: Callable[[str], Awaitable[None]]
    limits: DraLimits
    log: logging.Logger


class Strangers:
    def __init__(self, options: StrangersOptions) -> None:
        self._options = options
        self._asked: dict[str, float] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def wanted(self, uid: str) -> None:
        """The pod's claims are asked for: it lives."""
        self._asked[uid] = time.monotonic()
        task = self._tasks.pop(uid, None)
        if task is not None:
            task.cancel()

    def ended(self, uid: str) -> None:
        self._asked.pop(uid, None)

    def reconcile(self, active: set[str]) -> None:
        """Only right once pod sources have synced. A list may have been overtaken by a pod that came since."""
        fresh = time.monotonic() - self._options.limits.fresh
        for uid in self._options.pods() - active - self._tasks.keys():
            if self._asked.get(uid, float("-inf")) < fresh:
                task = asyncio.create_task(self._give_back(uid), name=f"give back {uid}")
                self._tasks[uid] = task
                task.add_done_callback(lambda done, uid=uid: self._forget(uid, done))  # type: ignore[misc]  # the default binds this turn's uid

    def _forget(self, uid: str, task: "asyncio.Task[None]") -> None:
        if self._tasks.get(uid) is task:
            del self._tasks[uid]

    async def _give_back(self, uid: str) -> None:
        pause, told = self._options.limits.retry_first, ""
        while True:
            try:
                await self._options.unprepare(uid)
            except NodeplaneError as error:
                if told != str(error):
                    self._options.log.warning("claims of pod %s, which is gone, not given back yet: %s", uid, error)
                told = str(error)
            else:
                self._options.log.info("claims of pod %s, which is gone, are given back", uid)
                return self.ended(uid)
            await asyncio.sleep(pause)
            pause = min(pause * 2, self._options.limits.retry_most)

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
