"""From a watcher's queue to its client, which may not read."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import grpc.aio

from actors.frontdoor.errors import WatcherTooSlow
from actors.frontdoor.types import Entry
from actors.frontdoor.watchers import Watcher

Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True)
class Sending:
    """One open watch, headers already sent."""

    context: Context
    watcher: Watcher
    past: Iterable[Entry]
    """What comes before the watcher's queue."""
    encode: Callable[[Entry], bytes]
    last_words: float
    on_dropped: Callable[[], None]


async def send(sending: Sending) -> None:
    """Until the watcher ends, and raises why; a client that does not even take its last words is cut off."""
    pumping = asyncio.ensure_future(_pump(sending))
    try:
        await sending.watcher.over(pumping)
        if not pumping.done():
            sending.on_dropped()
            await asyncio.wait([pumping], timeout=sending.last_words)
    finally:
        pumping.cancel()
    if pumping.done() and not pumping.cancelled():
        pumping.result()
    raise sending.watcher.ended or WatcherTooSlow("the client does not read")


async def _pump(sending: Sending) -> None:
    write, encode, watcher = sending.context.write, sending.encode, sending.watcher
    for entry in sending.past:
        await write(encode(entry))
    while True:
        await write(encode(await watcher.next()))
