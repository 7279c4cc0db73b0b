"""The faults in force: what the next call of each method meets."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import grpc
import grpc.aio

from supervisor.scripted.types import Fault

Context = grpc.aio.ServicerContext[Any, Any]


class Faults:
    """By method name. A fault for some calls is over after them; a hang ends when another fault is set."""

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
        """As a step of a script orders."""
        for method, fault in faults.items():
            self.set(method, fault)
            say(f"{method} has another fault" if fault != type(fault)() else f"{method} is well again")

    def take(self, method: str) -> Fault:
        """What this call meets; counts it."""
        fault = self._faults.get(method, Fault())
        self._met[method] = self._met.get(method, 0) + 1
        return fault if not fault.times or self._met[method] <= fault.times else Fault()

    async def meet(self, method: str, context: Context) -> None:
        """Returns when the call is to be answered; a failure ends it here."""
        fault = self.take(method)
        if fault.delay:
            await asyncio.sleep(fault.delay)
        while fault.hang and self._faults.get(method) is fault:
            await self._changed.wait()
        if fault.error:
            await context.abort(getattr(grpc.StatusCode, fault.code), fault.error)
