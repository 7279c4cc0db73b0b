"""The difference between two lists of a device plugin, as its record shows it. Pure."""

from collections.abc import Callable, Sequence
from typing import Any

from actors.devices.calls.log import Report
from actors.devices.model.types import PluginDevice
from protocols.messages.devices import HEALTHY, UNHEALTHY
from protocols.wire.rendering import MAX_ITEMS


def list_report(before: Sequence[PluginDevice] | None, now: Sequence[PluginDevice], outcome: str = "") -> Report:
    """Return the record of a list: counts, and the first of the added, removed and changed devices.

    A list that equals the last one costs one comparison; `before` is None for the first list of a connection.
    """
    same, healthy = before == now, sum(device.healthy for device in now)
    report = Report(outcome or ("nothing changed" if same else f"capacity {len(now)}, allocatable {healthy}"))
    report.content = {"devices": len(now), "healthy": healthy}
    if not same:
        _add_differences(report, {device.id: device for device in before or ()}, {device.id: device for device in now})
    return report


def _add_differences(report: Report, before: dict[str, PluginDevice], now: dict[str, PluginDevice]) -> None:
    added = [device for id, device in now.items() if id not in before]
    removed = [device for id, device in before.items() if id not in now]
    changed = [device for id, device in now.items() if id in before and before[id] != device]
    _put(report, "added", added, _shown)
    _put(report, "removed", removed, lambda _: {})
    _put(report, "changed", changed, _shown)


def _put(
    report: Report, name: str, devices: list[PluginDevice], show: Callable[[PluginDevice], dict[str, Any]]
) -> None:
    if not devices:
        return
    shown = devices[:MAX_ITEMS]
    if len(devices) > len(shown):
        report.renderer.omitted[f"reply.{name}"] = len(devices) - len(shown)
    report.content[name] = [
        {"ID": report.renderer.text(device.id, ("reply", name, at, "ID")), **show(device)}
        for at, device in enumerate(shown)
    ]


def _shown(device: PluginDevice) -> dict[str, Any]:
    """Return the fields of a device besides its ID."""
    numa = {"numa": list(device.numa[:MAX_ITEMS])} if device.numa else {}
    return {"health": HEALTHY if device.healthy else UNHEALTHY, **numa}
