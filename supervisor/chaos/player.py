"""Play a script line by line. Orders are repeated while their receiver is down; expectations are polled."""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from protocols.errors import NodeplaneError
from protocols.kubeclient.client import ApiError
from protocols.process.tasks import awaited
from supervisor.base.errors import UsageError
from supervisor.chaos.conditions import CONDITIONS
from supervisor.chaos.orders import ORDERS
from supervisor.chaos.script import Script, ScriptFailed, ScriptInvalid, ScriptLine
from supervisor.chaos.stage import ChaosStage, documents

POLL_S = 0.05
PERMANENT_ERRORS = (400, 401, 403, 404, 405, 422)
"""Status codes of the API that a repetition does not change."""

ANNOUNCED_S = 1.0
"""A line that does not succeed for so long says once what it waits for."""

Say = Callable[[str], None]


class _Attempt(NamedTuple):
    """Result of one attempt at a line, which succeeded if `waits_for` is empty."""

    note: str = ""
    waits_for: str = ""


def _nowhere(text: str) -> None:
    pass


class Player:
    """Plays one script; what runs in the background is joined at the end."""

    def __init__(
        self, script: Script, stage: ChaosStage, say: Say, begin: Say = _nowhere, announce: Say = _nowhere
    ) -> None:
        """`say` is called with the result of each line that succeeded, `begin` with each line before it is played.

        `announce` is called with the reason of one that has to wait.
        """
        self._script = script
        self._stage = stage
        self._say = say
        self._begin = begin
        self._announce = announce
        self._background: list[asyncio.Task[None]] = []

    async def play(self) -> None:
        """Play to the end. Raises ScriptFailed at the first line that fails, UsageError for one that cannot succeed."""
        self._check_files(self._script.steps)
        try:
            await self._steps(self._script.steps)
            await self._join()
        finally:
            for task in self._background:
                task.cancel()
            await asyncio.gather(*self._background, return_exceptions=True)

    def _check_files(self, steps: Iterable[ScriptLine]) -> None:
        for step in steps:
            self._check_files(step.body)
            if step.verb == "apply":
                try:
                    documents(self._stage.directory / step.words[0])
                except ScriptInvalid as error:
                    raise self._invalid(step, error) from None

    async def _steps(self, steps: Iterable[ScriptLine]) -> None:
        for step in steps:
            if step.verb == "repeat":
                for _ in range(int(float(step.words[0]))):
                    await self._steps(step.body)
            elif step.verb == "join":
                await self._join()
            elif step.background:
                self._background.append(awaited(self._step(step), step.text))
            else:
                await self._step(step)

    async def _join(self) -> None:
        await asyncio.gather(*self._background)
        self._background.clear()

    async def _step(self, step: ScriptLine) -> None:
        attempt = self._expect if step.verb == "expect" else self._order
        began = time.monotonic()
        self._begin(step.text)
        is_announced = False
        while (seen := await attempt(step)).waits_for:
            elapsed = time.monotonic() - began
            if elapsed >= ANNOUNCED_S and not is_announced:
                self._announce(f"waiting up to {step.within:g} s: {step.text}: {seen.waits_for}")
                is_announced = True
            if elapsed >= step.within:
                raise self._failed(step, f"not within {step.within:g} s; instead: {seen.waits_for}")
            await asyncio.sleep(POLL_S)
        self._say(f"{time.monotonic() - began:7.2f} s  {step.text}{f'  ({seen.note})' if seen.note else ''}")

    async def _order(self, step: ScriptLine) -> _Attempt:
        try:
            return _Attempt(note=await ORDERS[step.verb](self._stage, step))
        except UsageError as error:
            raise self._invalid(step, error) from None
        except NodeplaneError as error:
            if isinstance(error, ApiError) and error.code in PERMANENT_ERRORS:
                raise self._failed(step, str(error)) from None
            return _Attempt(waits_for=str(error))

    async def _expect(self, step: ScriptLine) -> _Attempt:
        condition, *words = step.words
        try:
            seen = await CONDITIONS[condition](self._stage, tuple(words))
        except NodeplaneError as error:
            return _Attempt(waits_for=str(error))
        return _Attempt(waits_for="" if seen.holds else seen.instead)

    def _failed(self, step: ScriptLine, why: str) -> ScriptFailed:
        return ScriptFailed(f"{self._script.name}:{step.line}: {step.text}: {why}")

    def _invalid(self, step: ScriptLine, error: UsageError) -> ScriptInvalid:
        return ScriptInvalid(f"{self._script.name}:{step.line}: {step.text}: {error}")


def line_count(steps: Iterable[ScriptLine]) -> int:
    """Return how many lines are played, repetitions included."""
    return sum(
        int(float(step.words[0])) * line_count(step.body) if step.verb == "repeat" else step.verb != "join"
        for step in steps
    )
