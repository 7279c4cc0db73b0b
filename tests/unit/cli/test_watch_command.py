"""`nodeplane watch`: what it prints, and what it does about a socket that nothing serves."""

import json
import socket
import time
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from protocols.messages.devices import AllocatedDevice, ContainerAllocation, PodAllocation
from protocols.podresources import Action, AllocatableEvent, NotAnswering, PodEvent, PodResources, WatchOptions
from supervisor.cli.inspect.watch import printer
from supervisor.cli.main import main

FORGED = "gpu-0\n12:00:00.000  DELETED  default/other\x1b[2J"
DEVICES = (AllocatedDevice("example.com/gpu", FORGED, (0,)),)
ADDED = PodEvent(Action.ADDED, PodAllocation("u1", "default", "p1", (ContainerAllocation("main", devices=DEVICES),)))


def test_watch_text_escapes_ids_of_plugins(capsys: pytest.CaptureFixture[str]) -> None:
    printer("pods", "text")(ADDED)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    assert r"gpu-0\n12:00:00.000  DELETED  default/other\x1b[2J(numa 0)" in lines[0]


def test_watch_json_of_ids_that_text_would_escape_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    id = "gpu\u00a0\u00ad\ufeff\U0001000c\x1b0"
    devices = (AllocatedDevice("example.com/gpu", id, (0,)),)
    allocation = PodAllocation("u1", "default", "p1", (ContainerAllocation("main", devices=devices),))
    printer("pods", "json")(PodEvent(Action.ADDED, allocation))
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert json.loads(text)["containers"][0]["devices"][0]["id"] == id


@pytest.mark.parametrize(("what", "event"), [("pods", ADDED), ("allocatable", AllocatableEvent(Action.ADDED))])
def test_watch_json_has_times_with_a_zone(what: str, event: Any, capsys: pytest.CaptureFixture[str]) -> None:
    printer(what, "json")(event)
    line = json.loads(capsys.readouterr().out)
    stamp = datetime.fromisoformat(line["time"])
    assert stamp.utcoffset() is not None
    assert abs(stamp.timestamp() - time.time()) < 60
    assert line["action"] == "ADDED"


@pytest.mark.parametrize("output", ["json", "text"])
def test_watch_json_keeps_notes_from_standard_output(
    output: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def broken(self: PodResources, options: WatchOptions) -> AsyncIterator[PodEvent]:
        yield ADDED
        options.on_break("watch interrupted (UNAVAILABLE); connecting again")

    monkeypatch.setattr(PodResources, "watch", broken)
    assert main(["watch", "pods", "--retry", "-o", output, "--socket", "/nowhere"]) == 0
    written = capsys.readouterr()
    assert ("# watch interrupted" in written.err) == (output == "json")
    assert ("# watch interrupted" in written.out) == (output == "text")


def test_watch_of_a_socket_that_nothing_serves_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "pods", "-o", "json", "--root", str(tmp_path)]) == 1
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.startswith(f"nodeplane: {tmp_path}/kubelet/pod-resources/kubelet.sock: nothing answers there;")
    assert "--retry" in written.err
    assert written.err.count("\n") == 1


async def test_connect_to_a_silent_socket_has_a_deadline(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen()
        async with PodResources(path, timeout=0.2) as node:
            with pytest.raises(NotAnswering, match=r"no answer in 0\.2 s"):
                await node.connect()
