"""Play a script line by line. Orders are repeated while their receiver is down; expectations are polled."""

import asyncio
import time
from collections.abc import Callable, Iterable

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

Say = Callable[[str], None]


class Player:
    """Plays one script; what runs in the background is joined at the end."""

    def __init__(self, script: Script, stage: ChaosStage, say: Say, begin: Say = lambda text: None) -> None:
        """`say` is called with the result of each line that succeeded, `begin` with each line before it is played."""
        self._script = script
        self._stage = stage
        self._say = say
        self._begin = begin
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
        began = time.monotonic()
        self._begin(step.text)
        note = await (self._expect(step) if step.verb == "expect" else self._order(step))
        self._say(f"{time.monotonic() - began:7.2f} s  {step.text}{f'  ({note})' if note else ''}")

    async def _order(self, step: ScriptLine) -> str:
        deadline, why = time.monotonic() + step.within, ""
        while True:
            try:
                return await ORDERS[step.verb](self._stage, step)
            except UsageError as error:
                raise self._invalid(step, error) from None
            except NodeplaneError as error:
                why = str(error)
                if isinstance(error, ApiError) and error.code in PERMANENT_ERRORS:
                    raise self._failed(step, why) from None
            if time.monotonic() >= deadline:
                raise self._failed(step, f"not within {step.within:g} s; last: {why}")
            await asyncio.sleep(POLL_S)

    async def _expect(self, step: ScriptLine) -> str:
        condition, *words = step.words
        deadline, instead = time.monotonic() + step.within, "nothing was heard"
        while True:
            try:
                seen = await CONDITIONS[condition](self._stage, tuple(words))
                if seen.holds:
                    return ""
                instead = seen.instead
            except NodeplaneError as error:
                instead = str(error)
            if time.monotonic() >= deadline:
                raise self._failed(step, f"not within {step.within:g} s; instead: {instead}")
            await asyncio.sleep(POLL_S)

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
