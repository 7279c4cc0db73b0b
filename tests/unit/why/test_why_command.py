"""`nodeplane why`: its targets, and texts of others on the terminal."""

import argparse
import asyncio
import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from protocols.kinds.table import PODS
from protocols.messages.devices import Device, ResourceInventory
from supervisor.base.errors import UsageError
from supervisor.base.terminal import duration
from supervisor.why import command
from supervisor.why.gather import device_managers
from supervisor.why.gather.sources import DeviceManager, SourceReader, get, unknown
from supervisor.why.model.text import span_text
from supervisor.why.model.types import Diagnosis
from supervisor.why.targets import KINDS, WhyTarget, target_of

HOSTILE = Diagnosis("pod/default/a", "failed", "end\x1b[2J\nfake", ("log: \x1b]0;x\x07\r\u202e",), ("nothing",))


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("web", WhyTarget("pod", "web", "n")),
        ("pods/web", WhyTarget("pod", "web", "n")),
        ("resourceclaim.resource.k8s.io/gpu", WhyTarget("claim", "gpu", "n")),
        ("device/example.com/gpu/gpu-0", WhyTarget("device", "example.com/gpu/gpu-0", "n")),
        ("plugin/example.com/gpu", WhyTarget("plugin", "example.com/gpu", "n")),
        ("pod/other/web", WhyTarget("pod", "web", "other")),
        ("claims/other/gpu", WhyTarget("claim", "gpu", "other")),
    ],
)
def test_target_is_kind_and_name(text: str, target: WhyTarget) -> None:
    assert target_of(text, "n") == target


@pytest.mark.parametrize(
    ("text", "hint"),
    [("nod/a", "did you mean node/a?"), ("pod/", "KIND/NAME"), ("pod/n/", "KIND/NAME"), ("x/y", "one of")],
)
def test_unknown_kind_is_an_error_with_a_hint(text: str, hint: str) -> None:
    with pytest.raises(UsageError, match=hint.replace("?", r"\?")):
        target_of(text, "default")


def test_unknown_name_is_an_error_with_the_nearest_name() -> None:
    error = unknown("pod", "default/wbe", ["api", "web"], "kubectl get pods")
    assert str(error) == "no pod is called 'default/wbe'; did you mean web? `kubectl get pods` lists them"
    assert "did you mean" not in str(unknown("node", "zzz", ["n1"], "kubectl get nodes"))


async def test_advice_for_a_recording_is_nothing_that_only_its_plane_could_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def cordoned(*_: Any) -> Diagnosis:
        return Diagnosis(
            "node/n1", "cordoned", "it is", advice=("`kubectl uncordon n1`", "wait; `kubectl get` shows it")
        )

    async def missing(*_: Any) -> Diagnosis:
        raise unknown("node", "n2", ["n1"], "kubectl get nodes")

    recording = Mock()
    monkeypatch.setitem(KINDS, "node", cordoned)
    found = await command.diagnose_recorded(recording, 0, WhyTarget("node", "n1", ""))
    assert found.advice == ("wait; `kubectl get` shows it",)
    monkeypatch.setitem(KINDS, "node", missing)
    with pytest.raises(UsageError) as caught:
        await command.diagnose_recorded(recording, 0, WhyTarget("node", "n2", ""))
    assert str(caught.value).endswith("it may be in the recording at another time (--at)")


def printed(output: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    async def found(*_: Any) -> Diagnosis:
        return HOSTILE

    monkeypatch.setattr(command, "diagnose", found)
    given = dict.fromkeys(("root", "replay", "at", "kubeconfig"), "") | {
        "target": "pod",
        "name": "a",
        "namespace": "default",
    }
    assert command.run(argparse.Namespace(output=output, **given)) == 0
    return capsys.readouterr().out


def test_text_of_others_is_escaped(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed("text", monkeypatch, capsys).splitlines() == [
        "pod/default/a: failed: end\\x1b[2J\\nfake",
        "  log: \\x1b]0;x\\x07\\r\\u202e",
        "  to do: nothing",
    ]


def test_json_has_all_fields_and_no_control_characters(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed("json", monkeypatch, capsys)
    assert text.replace("\n", "").isprintable()
    assert set(json.loads(text)) == {"target", "state", "reason", "evidence", "advice"}


def test_source_that_fails_is_named() -> None:
    async def failing() -> int:
        raise OSError("no such file")

    reader = SourceReader()
    assert asyncio.run(reader.read("events", failing(), 7)) == 7
    assert reader.unread == ["events could not be read: no such file"]


async def test_plugin_of_the_node_where_it_serves_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "example.com/gpu"
    served = DeviceManager(inventory={name: ResourceInventory(name, True, (Device(name, "a"),))})
    gone = DeviceManager(inventory={name: ResourceInventory(name, False)})

    async def managers(_: object) -> AsyncIterator[tuple[None, DeviceManager]]:
        for each in (DeviceManager(), gone, served, gone):
            yield None, each

    monkeypatch.setattr(device_managers, "managers", managers)
    sources: Any = SimpleNamespace(now=lambda: 7.0)
    (found,) = await device_managers.best_plugins(sources, {name})
    assert (found.connected, found.capacity) == (True, 1)
    assert await device_managers.best_plugins(sources, set()) == ()


async def test_name_that_no_object_can_have_is_not_asked_for() -> None:
    client: Any = None
    assert await get(client, PODS, "x/../y", "default") is None


@pytest.mark.parametrize(
    ("seconds", "shown", "spaced"),
    [
        (-1, "0.0s", "0.0 s"),
        (12.34, "12.3s", "12.3 s"),
        (250, "4m10s", "4 min 10 s"),
        (11100, "3h5m", "3 h 5 min"),
        (187_200, "2d4h", "2 d 4 h"),
    ],
)
def test_durations_have_two_units(seconds: float, shown: str, spaced: str) -> None:
    assert (duration(seconds), span_text(seconds)) == (shown, spaced)
