"""The faults that are in force: delays, hangs and failures of the next calls of each method."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import grpc
import grpc.aio

from protocols.process.scripts import CallFault, CallFaults

Context = grpc.aio.ServicerContext[Any, Any]


class Faults:
    """Faults by method name. A fault with `times` ends after that many calls; a hang ends with the next fault."""

    def __init__(self, faults: Mapping[str, CallFaults] | None = None) -> None:
        self._faults = dict(faults or {})
        self._died = asyncio.Event()
        self._restart = 0.0
        self._met: dict[str, int] = {}
        self._changed = asyncio.Event()

    def set(self, method: str, fault: CallFaults) -> None:
        self._faults[method] = fault
        self._met.pop(method, None)
        self._changed.set()
        self._changed = asyncio.Event()

    def change(self, faults: Mapping[Any, CallFaults], say: Callable[[str], None]) -> None:
        """Set the faults of a step."""
        for method, fault in faults.items():
            self.set(method, fault)
            say(f"{method} is well again" if fault == type(fault)() else f"{method} has another fault")

    def take(self, method: str) -> CallFault:
        """Count a call and return its fault."""
        fault = self._faults.get(method, CallFault())
        self._met[method] = self._met.get(method, 0) + 1
        if isinstance(fault, tuple):
            return _nth(fault, self._met[method])
        return fault if not fault.times or self._met[method] <= fault.times else CallFault()

    async def death(self) -> float:
        """Wait until a call meets a crash; return the seconds after which the program serves again, 0 = never."""
        await self._died.wait()
        self._died.clear()
        return self._restart

    async def meet(self, method: str, context: Context) -> CallFault:
        """Delay, hang or abort the call; return its fault if it shall be answered."""
        fault, in_force = self.take(method), self._faults.get(method)
        if fault.delay:
            await asyncio.sleep(fault.delay)
        while fault.hang and self._faults.get(method) is in_force:
            await self._changed.wait()
        if fault.crash:
            self._restart = fault.restart
            self._died.set()
            await asyncio.Event().wait()  # ended with the server's other calls
        if fault.error:
            await context.abort(getattr(grpc.StatusCode, fault.code), fault.error)
        return fault


def _nth(sequence: tuple[CallFault, ...], call: int) -> CallFault:
    """Return the fault of a call, from 1, in a sequence."""
    for fault in sequence:
        call -= fault.times or 1
        if call <= 0:
            return fault
    return CallFault()
