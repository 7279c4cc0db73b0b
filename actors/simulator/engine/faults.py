"""The faults that are in force: delays, hangs and failures of the next calls of each method."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import grpc
import grpc.aio

from actors.simulator.engine.scripts import Fault

Context = grpc.aio.ServicerContext[Any, Any]


class Faults:
    """Faults by method name. A fault with `times` ends after that many calls; a hang ends with the next fault."""

    def __init__(self, faults: Mapping[str, Fault] | None = None) -> None:
        self._faults = dict(faults or {})
        self._met: dict[str, int] = {}
        self._changed = asyncio.Event()

    def set(self, method: str, fault: Fault) -> None:
        self._faults[method] = fault
        self._met.pop(method, None)
        self._changed.set()
        self._changed = asyncio.Event()

    def change(self, faults: Mapping[Any, Fault], say: Callable[[str], None]) -> None:
        """Set the faults of a step."""
        for method, fault in faults.items():
            self.set(method, fault)
            say(f"{method} has another fault" if fault != type(fault)() else f"{method} is well again")

    def take(self, method: str) -> Fault:
        """Count a call and return its fault."""
        fault = self._faults.get(method, Fault())
        self._met[method] = self._met.get(method, 0) + 1
        return fault if not fault.times or self._met[method] <= fault.times else Fault()

    async def meet(self, method: str, context: Context) -> None:
        """Delay, hang or abort the call; return if it shall be answered."""
        fault = self.take(method)
        if fault.delay:
            await asyncio.sleep(fault.delay)
        while fault.hang and self._faults.get(method) is fault:
            await self._changed.wait()
        if fault.error:
            await context.abort(getattr(grpc.StatusCode, fault.code), fault.error)
