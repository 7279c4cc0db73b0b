"""Asks the supervisor for its status every few milliseconds, over the bus: for figures that kubectl is too slow for."""

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import msgspec

from protocols.bus import Bus, BusError, BusOptions
from protocols.messages import supervisor as messages
from tests.support.plane import synced_view
from tests.support.waiting import Late


class StatusProbe:
    def __init__(self, root: Path) -> None:
        self._bus_options = BusOptions(name="", run_dir=root / "run")
        self._runner = asyncio.Runner()

    def __enter__(self) -> "StatusProbe":
        self._bus = self._runner.run(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._bus.close())
        self._runner.close()

    async def _open(self) -> Bus:
        bus = Bus(self._bus_options)
        await bus.start()
        return bus

    def status(self) -> dict[str, dict[str, Any]]:
        return self._runner.run(self._status())

    async def _status(self) -> dict[str, dict[str, Any]]:
        try:
            answer = await self._bus.call(
                messages.ROOT_NAME, messages.STATUS, messages.Empty(), messages.PlaneStatus, timeout=2
            )
        except BusError:
            return {}
        return {actor.instance: msgspec.to_builtins(actor) for actor in answer.actors}

    def recovery(self, actor: str, timeout: float = 20.0) -> float:
        """Seconds from SIGKILL of `actor` until everything is live and synced under its new pid."""
        return self._runner.run(self._recovery(actor, timeout))

    async def _recovery(self, actor: str, timeout: float) -> float:
        pid = (await self._status())[actor]["pid"]
        began = time.perf_counter()
        os.kill(pid, signal.SIGKILL)
        while time.perf_counter() - began < timeout:
            status = await self._status()
            if status and status[actor]["pid"] not in (0, pid) and synced_view(status):
                return time.perf_counter() - began
            await asyncio.sleep(0.005)
        raise Late(f"{actor} was not back and synced {timeout:g} s after kill -9")
