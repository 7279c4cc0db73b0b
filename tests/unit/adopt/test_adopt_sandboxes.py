"""The runtime's sandboxes, by which adopt finds the uids of kubelet's pods."""

from typing import Any

import pytest

from actors.adopt.pod_identity import list_sandboxes
from protocols.bus import BusError
from protocols.messages.cri import CriReply


class GarbageBus:
    async def call(self, *_: Any, **__: Any) -> CriReply:
        return CriReply(response=b"\xff\xff\xff\xff")


async def test_sandboxes_that_do_not_decode_raise_a_bus_error() -> None:
    """The reconciler retries after those; any other exception ends the process, again and again."""
    with pytest.raises(BusError, match="ListPodSandbox does not decode"):
        await list_sandboxes(GarbageBus())  # type: ignore[arg-type]  # the one method that it calls
