"""The client of the runtime raises the errors of the bus alone: its callers wait and retry on them."""

from typing import Any

import pytest

from actors.podworker.clients.runtime import BusRuntime
from protocols.bus import BusError
from protocols.messages.cri import CriReply


class GarbageBus:
    async def call(self, *_: Any, **__: Any) -> CriReply:
        return CriReply(response=b"\xff\xff\xff\xff")


async def test_call_with_a_reply_that_does_not_decode_raises_a_bus_error() -> None:
    runtime: Any = BusRuntime(GarbageBus())  # type: ignore[arg-type]  # the one method that it calls
    with pytest.raises(BusError, match="ListPodSandbox does not decode") as raised:
        await runtime.live_pods()
    assert raised.value.code == "INTERNAL"
