"""What is to go wrong in which call, until it is told otherwise."""

import asyncio
from typing import Any, NamedTuple

import grpc

METHODS = ("prepare", "unprepare")


class Fault(NamedTuple):
    error: str = ""
    delay: float = 0.0
    """Seconds; infinite = the call hangs until its caller gives up."""


class Faults:
    def __init__(self) -> None:
        self._faults: dict[str, Fault] = {}

    def set(self, method: str, fault: Fault | None) -> None:
        """None: all is well again."""
        self._faults.pop(method, None)
        if fault is not None:
            self._faults[method] = fault

    async def meet(self, method: str, context: "grpc.aio.ServicerContext[Any, Any]") -> None:
        """First thing in each call."""
        fault = self._faults.get(method)
        if fault is None:
            return
        if fault.delay == float("inf"):
            await asyncio.Event().wait()
        await asyncio.sleep(fault.delay)
        if fault.error:
            await context.abort(grpc.StatusCode.INTERNAL, fault.error)
