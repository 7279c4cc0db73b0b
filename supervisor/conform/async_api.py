"""Calls of a plane's API from an event loop: one after the other, in a thread."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from supervisor.testing.api import Api

Object = dict[str, Any]
T = TypeVar("T")


class AsyncApi:
    """The API for coroutines; one request at a time, since the connection is shared."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._turn = asyncio.Lock()

    async def ask(self, method: str, path: str, body: Object | None = None, **query: str) -> Object:
        """Raises ApiError, OSError."""
        return await self._in_thread(lambda: self._api.ask(method, path, body, query))

    async def delete(self, path: str, grace_s: int = 0) -> None:
        """Delete an object; one that does not exist is no error."""
        await self._in_thread(lambda: self._api.delete(path, grace_s))

    async def _in_thread(self, call: Callable[[], T]) -> T:
        async with self._turn:
            return await asyncio.to_thread(call)
