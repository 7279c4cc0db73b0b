"""Functions that meet a bug."""

import asyncio
from typing import Any


class Breaks:
    """An asynchronous function that raises the first time it is called, then goes on for ever, or returns `then`."""

    def __init__(self, then: Any = None) -> None:
        self.calls, self._then = 0, then

    async def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.calls += 1
        if self.calls == 1:
            raise ZeroDivisionError("a bug")
        if self._then is None:
            await asyncio.Event().wait()
        return self._then
