"""Writes the claims down, one write at a time; changes that come while the disk works share the next one."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from actors.devices.dra.checkpoint import encode
from actors.devices.dra.errors import ClaimsNotWritten
from actors.devices.dra.types import ClaimInfo


@dataclass(frozen=True)
class KeepingOptions:
    claims: Callable[[], list[ClaimInfo]]
    save: Callable[[bytes], None]
    """Blocks until the bytes are on disk; raises OSError."""
    log: Callable[[str], None]


class Keeping:
    def __init__(self, options: KeepingOptions) -> None:
        self._options = options
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked = 0
        self._written = 0
        self._trouble = ""

    async def durable(self) -> None:
        """All that stands in the claims now is on disk when this returns; raises ClaimsNotWritten."""
        self._asked += 1
        writing = asyncio.create_task(self._reach(self._asked))
        self._tasks.add(writing)
        writing.add_done_callback(self._done)
        await asyncio.shield(writing)  # a caller that gives up must not let a later write begin before this one ends

    async def close(self) -> None:
        """What is being written is written when this returns."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _reach(self, mine: int) -> None:
        async with self._lock:
            if self._written >= mine:  # another's write took ours along
                return
            upto = self._asked
            await self._write(encode(self._options.claims()))
            self._written = upto

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # its caller has it, or has given up

    async def _write(self, raw: bytes) -> None:
        try:
            await asyncio.to_thread(self._options.save, raw)
        except OSError as error:
            text = f"cannot write the claim checkpoint: {error.strerror}; no claim is prepared"
            if text != self._trouble:  # once: the log may lie on the same full disk
                self._options.log(text)
            self._trouble = text
            raise ClaimsNotWritten(text) from None
        if self._trouble:
            self._options.log("the claim checkpoint is written again")
        self._trouble = ""
