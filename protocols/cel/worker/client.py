"""The shell's side: send questions to the worker of this process, and run pure code until all are answered."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from protocols.bus import Bus, BusError
from protocols.cel.worker.asking import Asking, NotAnswered, Process, current, remember
from protocols.cel.worker.messages import (
    EVALUATE,
    Answer,
    Answers,
    Question,
    Work,
    decode_answer,
    encode,
    worker_of,
)
from protocols.errors import NodeplaneError

T = TypeVar("T")
PASSES = 64
"""Runs of one piece of pure code; each asks for something new."""
SECONDS = 30.0
"""Deadline of one piece of work, with the time in which the worker is restarted."""
ATTEMPT_S = 15.0
"""Deadline of one attempt. The worker ends what takes longer itself; past it, the worker is stopped or stuck."""
PAUSE_S = 0.02


class WorkerAway(NodeplaneError, http=503, grpc="UNAVAILABLE"):
    """Raised when the worker for CEL does not answer in time."""

    def __init__(self, why: object) -> None:
        super().__init__(f"the process that evaluates CEL expressions does not answer, please try again: {why}")


class CelClient:
    """The worker beside one process."""

    def __init__(self, bus: Bus, instance: str, need_worker: Callable[[], None]) -> None:
        """`need_worker`: called with each question, since the worker is started by the first one."""
        self._bus, self._worker, self._need_worker = bus, worker_of(instance), need_worker

    async def ask(self, questions: Sequence[bytes], owner: str = "") -> list[Answer]:
        """Return the answers in order. Waits for a worker to start, and asks again after its end. Raises WorkerAway."""
        loop = asyncio.get_running_loop()
        end = loop.time() + SECONDS
        work = Work(tuple(questions), owner)
        self._need_worker()
        while True:
            try:
                seconds = min(ATTEMPT_S, end - loop.time())
                response = await self._bus.call(self._worker, EVALUATE, work, Answers, timeout=seconds)
                return [decode_answer(answer) for answer in response.answers]
            except BusError as error:
                if loop.time() + PAUSE_S >= end:
                    raise WorkerAway(error) from None
                await asyncio.sleep(PAUSE_S)


_client: CelClient | None = None


def use_worker(bus: Bus, instance: str, need_worker: Callable[[], None]) -> CelClient:
    """Let this process ask its worker from now on; it never loads the native library then."""
    global _client
    Process.remote = True
    _client = CelClient(bus, instance, need_worker)
    return _client


async def settled(run: Callable[[], Awaitable[T]], owner: str = "") -> T:
    """Return the result of `run` once it has all answers. Raises its errors, and WorkerAway."""
    if _client is None:
        return await run()
    asking = Asking()
    token = current.set(asking)
    try:
        for _ in range(PASSES):
            try:
                result = await run()
                if not asking.missing:
                    return result
            except Exception:
                if not asking.missing:
                    raise
            await _answered(_client, asking, owner)
    finally:
        current.reset(token)
    raise NotAnswered


async def _answered(client: CelClient, asking: Asking, owner: str) -> None:
    missing: Mapping[bytes, Question] = asking.missing
    for (key, question), answer in zip(missing.items(), await client.ask(list(missing), owner), strict=True):
        asking.answers[key] = answer
        remember(key, question, answer)
    asking.missing = {}


__all__ = ["CelClient", "WorkerAway", "encode", "settled", "use_worker"]
