"""Selectors evaluated for devices: what pure code asks, one device at a time, and the shell finds for many at once.

The worker compiles all selectors; simple ones are then evaluated here, from the checked tree. For the others `matches`
raises SelectorPending for a device that was not asked about before; the shell then awaits `Selections.find`
with all devices that the search may reach and runs the pure code again. Results are kept until many others came.
"""

import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple, Protocol

from protocols.bounded import BoundedMap
from protocols.cel.programs import SelectorProgram, compiled
from protocols.cel.text.source import CompileError
from protocols.cel.worker.client import CelClient
from protocols.cel.worker.local import wire_of
from protocols.cel.worker.messages import (
    Checked,
    CheckSelector,
    DriverDevices,
    Forgotten,
    Select,
    Selected,
    WireDevice,
    WorkerFault,
    encode,
    error_of,
)
from protocols.dra.types import Device
from protocols.errors import NodeplaneError

BATCH = 1000
"""Devices of one question."""
KEPT = 200_000
"""Results kept; the expression that was asked about longest ago goes first."""
SENT = 65_536
"""Devices that the worker is believed to have."""
SECONDS = 5.0
"""Time for one selector and the devices of one search."""
PROGRAMS = 1024
"""Selectors whose checked trees are kept."""
Result = bool | WorkerFault


class SelectorPending(NodeplaneError, http=503, grpc="UNAVAILABLE"):
    """Raised in pure code for a selector and a device without a result; a shell that awaits `find` catches it."""

    def __init__(self, expression: str, driver: str, device: Device) -> None:
        super().__init__("a selector was not evaluated yet; try again")
        self.expression, self.driver, self.device = expression, driver, device


class _Search(NamedTuple):
    end: float
    owner: str


class Selections:
    """Results by expression and device, by the identity of the device: an unchanged one stays the same object."""

    def __init__(self, client: CelClient) -> None:
        self._client = client
        self._programs = BoundedMap[str, SelectorProgram](PROGRAMS)
        self._known: OrderedDict[str, dict[int, tuple[Device, Result, float]]] = OrderedDict()
        self._count = 0
        self._sent: OrderedDict[int, tuple[int, Device]] = OrderedDict()
        """Numbers of devices, by their identity."""
        self._last = 0

    def result(self, expression: str, driver: str, device: Device) -> bool:
        """Raises CelError, SelectorPending."""
        program = self._programs.get(expression)
        if program is not None and program.is_simple:
            return program.matches(driver, device)
        cached = self._known.get(expression, {}).get(id(device))
        if cached is None or (cached[2] and time.monotonic() > cached[2]):
            raise SelectorPending(expression, driver, device)
        if isinstance(cached[1], WorkerFault):
            raise error_of(cached[1])
        return cached[1]

    async def find(
        self, expressions: Iterable[str], devices: Mapping[str, Sequence[Device]], owner: str = ""
    ) -> None:  # fmt: skip
        """Evaluate expressions for devices by driver. Raises WorkerAway."""
        wanted = list(dict.fromkeys(expressions))
        await self._compile([expression for expression in wanted if expression not in self._programs], owner)
        for expression in wanted:
            if (program := self._programs.get(expression)) is not None and program.is_simple:
                continue
            self._forget_others(expression, devices)
            search = _Search(time.monotonic() + SECONDS, owner)
            for driver, members in devices.items():
                known = self._known.get(expression, {})
                now = time.monotonic()
                new = [member for member in members if not _holds(known.get(id(member)), now)]
                for at in range(0, len(new), BATCH):
                    await self._evaluate(expression, driver, tuple(new[at : at + BATCH]), search)

    async def _compile(self, expressions: Sequence[str], owner: str) -> None:
        """Have expressions compiled. Those with errors get them again with the devices."""
        questions = [encode(CheckSelector(text)) for text in expressions]
        answers = await self._client.ask(questions, owner) if questions else ()
        for expression, answer in zip(expressions, answers, strict=True):
            if isinstance(answer, Checked):
                with suppress(CompileError):
                    self._programs[expression] = SelectorProgram(answer.cost, answer.serialized)

    async def _evaluate(self, expression: str, driver: str, devices: tuple[Device, ...], search: _Search) -> None:
        again = False
        while devices:
            if time.monotonic() > search.end:
                fault = WorkerFault(
                    "ended", f"the selector took more than {SECONDS:g} s for the devices of one search", 1.0
                )
                return self._keep(expression, devices, [fault] * len(devices))
            question = Select(expression, self._devices(driver, devices, again))
            (answer,) = await self._client.ask([encode(question)], search.owner)
            again = isinstance(answer, Forgotten)
            if isinstance(answer, Selected):
                self._keep(expression, devices, answer.outcomes)
                devices = devices[max(1, len(answer.outcomes)) :]
            elif not again:
                fault = (
                    answer
                    if isinstance(answer, WorkerFault)
                    else WorkerFault("evaluation", "the answer has another shape")
                )
                return self._keep(expression, devices, [fault] * len(devices))
        return None

    def _devices(self, driver: str, devices: tuple[Device, ...], again: bool) -> DriverDevices:
        """Return the devices by their numbers, with those that the worker does not know; with `again`, with all."""
        new: dict[int, WireDevice] = {}
        numbers = []
        for device in devices:
            held = self._sent.pop(id(device), None)
            if held is None:
                self._last += 1
                held = self._last, device
                new[self._last] = wire_of(device)
            elif again:
                new[held[0]] = wire_of(device)
            self._sent[id(device)] = held
            numbers.append(held[0])
        while len(self._sent) > SENT:
            self._sent.popitem(last=False)
        return DriverDevices(driver, tuple(numbers), new)

    def _forget_others(self, expression: str, devices: Mapping[str, Sequence[Device]]) -> None:
        """Forget the devices that a search does not have once one expression has more results than are kept."""
        known = self._known.get(expression, {})
        if len(known) > KEPT:
            searched = {id(member) for members in devices.values() for member in members}
            self._count -= len(known.keys() - searched)
            self._known[expression] = {key: result for key, result in known.items() if key in searched}

    def _keep(self, expression: str, devices: Sequence[Device], results: Sequence[Result]) -> None:
        known = self._known.setdefault(expression, {})
        self._known.move_to_end(expression)
        self._count -= len(known)
        for device, result in zip(devices, results, strict=False):
            until = time.monotonic() + result.again_s if isinstance(result, WorkerFault) and result.again_s else 0.0
            known[id(device)] = device, result, until
        self._count += len(known)
        while self._count > KEPT and len(self._known) > 1:
            self._count -= len(self._known.popitem(last=False)[1])


def _holds(found: tuple[Device, Result, float] | None, now: float) -> bool:
    return found is not None and not (found[2] and now > found[2])


class Results(Protocol):
    """Whatever knows the result of a selector for a device."""

    def result(self, expression: str, driver: str, device: Device) -> bool: ...


_results: Results | None = None


def use_selections(client: CelClient) -> None:
    """Let the worker evaluate the selectors of this process from now on."""
    global _results
    _results = Selections(client)


@contextmanager
def evaluated_by(results: Results) -> Iterator[None]:
    """Have the selectors of the block evaluated by something else."""
    global _results
    before, _results = _results, results
    try:
        yield
    finally:
        _results = before


def matches(expression: str, driver: str, device: Device) -> bool:
    """Return True if a selector holds for a device. Raises CelError, SelectorPending."""
    if _results is not None:
        return _results.result(expression, driver, device)
    return compiled(expression).matches(driver, device)


async def find(expressions: Iterable[str], devices: Mapping[str, Sequence[Device]], owner: str = "") -> None:
    """Have the worker evaluate expressions for devices by driver; nothing without a worker. Raises WorkerAway."""
    if isinstance(_results, Selections):
        await _results.find(expressions, devices, owner)
