"""How fast a plugin may talk: at any usual pace nothing waits; one that talks without end is not always listened to."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from actors.devices.model.errors import PluginFailed
from actors.devices.plugins import plugin as lists
from protocols.wire import deviceplugin_v1beta1_pb2 as pb


def pauses(monkeypatch: pytest.MonkeyPatch, count: int, every: float) -> list[float]:
    """Those the reader makes while a plugin sends `count` lists, one each `every` seconds."""
    now, made = [0.0], list[float]()

    async def sleep(seconds: float) -> None:
        made.append(seconds)
        now[0] += seconds

    async def call() -> AsyncIterator[bytes]:
        for number in range(count):
            now[0] += every
            yield pb.ListAndWatchResponse(devices=[pb.Device(ID=str(number))]).SerializeToString()

    async def read() -> None:
        channel: Any = SimpleNamespace(unary_stream=lambda *_, **__: lambda request: call())
        following = lists.DeviceListStream(channel)
        await following._reader()
        assert following._take() == pb.ListAndWatchResponse(devices=[pb.Device(ID=str(count - 1))]).SerializeToString()
        with pytest.raises(PluginFailed, match="closed its stream"):
            following._take()

    with monkeypatch.context() as patched:
        patched.setattr(lists, "asyncio", SimpleNamespace(sleep=sleep, Event=asyncio.Event))
        patched.setattr(lists, "time", SimpleNamespace(monotonic=lambda: now[0]))
        asyncio.run(read())
    return made


def test_a_hundred_lists_a_second_are_all_heard_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pauses(monkeypatch, 1000, 0.01) == []


def test_lists_without_end_are_taken_at_their_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    made = pauses(monkeypatch, 10_000, 0.0)
    assert sum(made) >= (10_000 - 2 * lists.BURST) / lists.MESSAGES_S
    assert len(made) <= 10_000 / lists.BURST + 1
