"""Proxies of a capture beside a kubelet while plugins register."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from supervisor.capture import beside
from supervisor.capture.beside import Beside


class FakeProxy:
    """A proxy that nobody uses, and whose stop takes a while."""

    stopped: list["FakeProxy"]
    failing: bool = False

    def __init__(self, socket: Path, target: Path, recording: Any = None, name: str = "") -> None:
        self.socket, self.target, self.idle = socket, target, True

    async def start(self) -> None:
        if self.failing:
            raise OSError("no room")

    async def stop(self) -> None:
        await asyncio.sleep(0)
        self.stopped.append(self)


@pytest.fixture
def capture(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setattr(FakeProxy, "stopped", [], raising=False)
    monkeypatch.setattr(beside, "Proxy", FakeProxy)
    monkeypatch.setattr(beside, "answers", lambda target: False)
    recording: Any = None
    return Beside(tmp_path / "kubelet", tmp_path / "served", recording, print)


async def test_plugins_that_register_at_once_do_not_fail_over_dead_ones(capture: Any) -> None:
    dead = [FakeProxy(Path(f"/k/{name}"), Path(f"/p/{name}")) for name in "abcd"]
    capture._plugins = list(dead)
    requests = [pb.RegisterRequest(endpoint=f"{name}.sock", resource_name="a.b/c") for name in "xy"]
    await asyncio.gather(*map(capture._plugin, requests))
    assert len(FakeProxy.stopped) == len(dead)


async def test_kubelet_that_ends_while_registrations_fail_leaves_no_proxy(capture: Any) -> None:
    first, second, third = proxies = [FakeProxy(Path(f"/k/{name}"), Path(f"/p/{name}")) for name in "abc"]
    capture._plugins = list(proxies)

    async def removed() -> None:
        if first in capture._plugins:
            capture._plugins.remove(first)
            await first.stop()

    capture._node = (1, 1)
    await asyncio.gather(capture._follow_kubelet(), removed())
    assert set(FakeProxy.stopped) == {first, second, third}
    assert capture._plugins == []


async def test_proxy_that_cannot_start_is_forgotten(capture: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeProxy, "failing", True)
    with pytest.raises(OSError, match="no room"):
        await capture._forward(pb.RegisterRequest(endpoint="x.sock", resource_name="a.b/c"))
    assert capture._plugins == []
