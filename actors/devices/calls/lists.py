"""The difference between two lists of a device plugin, as its record shows it. Pure."""

from collections.abc import Sequence
from typing import Any

from actors.devices.calls.log import StreamMessage
from protocols.lifecycle.devices.types import PluginDevice
from protocols.messages.devices import HEALTHY, UNHEALTHY
from protocols.wire.rendering import MAX_ITEMS, Path


def list_report(before: Sequence[PluginDevice] | None, now: Sequence[PluginDevice], outcome: str = "") -> StreamMessage:
    """Return the record of a list: counts, and the first of the added, removed and changed devices.

    A list that equals the last one costs one comparison; `before` is None for the first list of a connection.
    """
    same, healthy = before == now, sum(device.healthy for device in now)
    report = StreamMessage(outcome or ("nothing changed" if same else f"capacity {len(now)}, allocatable {healthy}"))
    report.content = {"devices": len(now), "healthy": healthy}
    if not same:
        report.outcome += _odd_words(now)
        _add_differences(report, {device.id: device for device in before or ()}, {device.id: device for device in now})
    return report


def _odd_words(devices: Sequence[PluginDevice]) -> str:
    odd = [device for device in devices if device.word]
    if not odd:
        return ""
    count = f"{len(odd)} device{'s are' if len(odd) > 1 else ' is'} unhealthy"
    return f"; {count}: {odd[0].word!r} is not exactly 'Healthy'"


def _add_differences(report: StreamMessage, before: dict[str, PluginDevice], now: dict[str, PluginDevice]) -> None:
    added = [device for id, device in now.items() if id not in before]
    removed = [device for id, device in before.items() if id not in now]
    changed = [device for id, device in now.items() if id in before and before[id] != device]
    _put(report, "added", added)
    _put(report, "removed", removed, whole=False)
    _put(report, "changed", changed)


def _put(report: StreamMessage, name: str, devices: list[PluginDevice], whole: bool = True) -> None:
    """Record the first of some devices; with `whole`, what they are, else their ids."""
    if not devices:
        return
    shown = devices[:MAX_ITEMS]
    if len(devices) > len(shown):
        report.renderer.omitted[f"reply.{name}"] = len(devices) - len(shown)
    report.content[name] = [_shown(report, device, ("reply", name, at), whole) for at, device in enumerate(shown)]


def _shown(report: StreamMessage, device: PluginDevice, path: Path, whole: bool) -> dict[str, Any]:
    text = report.renderer.text
    fields: dict[str, Any] = {"ID": text(device.id, (*path, "ID"))}
    if whole:
        health = device.word or (HEALTHY if device.healthy else UNHEALTHY)
        fields["health"] = text(health, (*path, "health"))
        if device.numa:
            fields["numa"] = list(device.numa[:MAX_ITEMS])
    return fields
