"""Devices as tiles: lines of a group's heading and of as many tiles as fit beside each other."""

from collections.abc import Sequence

import msgspec

from protocols.messages.devices import HEALTHY, UNHEALTHY
from supervisor.console.drawing.text import BAD, CHOSEN, DIM, PENDING, TITLE, Line, Part, cut, pad, role_of
from supervisor.console.model.devices import DeviceTile, Group

WIDE_TILE = 26
WIDE_MOST = 120
"""Devices up to which a tile has its name and its pod; beyond, it is one character."""


class Row(msgspec.Struct, frozen=True):
    """A heading (no tiles) or a line of tiles."""

    group: Group
    first: int = 0
    count: int = 0


def rows(groups: Sequence[Group], width: int, *, dense: bool) -> list[Row]:
    """Return rows; `dense` tiles are one character wide."""
    fit = max(1, width if dense else width // WIDE_TILE)
    tile_rows: list[Row] = []
    for group in groups:
        tile_rows.append(Row(group))
        for first in range(0, len(group.devices), fit):
            tile_rows.append(Row(group, first, min(fit, len(group.devices) - first)))
    return tile_rows


def line(row: Row, width: int, *, dense: bool, chosen: tuple[str, str] | None) -> Line:
    """Return a row of the listing: the heading of a group, or tiles; `dense` ones are a character each."""
    if not row.count:
        return heading(row.group, width)
    devices = row.group.devices[row.first : row.first + row.count]
    return [part for device in devices for part in (_dense_tile if dense else _tile)(device, device.key == chosen)]


def tile_at(row: Row, column: int, *, dense: bool) -> int | None:
    """Return which tile of a row is at a column; None if none is there."""
    at = column if dense else column // WIDE_TILE
    return at if at < row.count else None


def heading(group: Group, width: int) -> Line:
    """Return the heading of a group with its counts, cut to the width."""
    numa = f"  NUMA {','.join(map(str, group.numa))}" if group.numa else ""
    healthy = sum(device.health == HEALTHY for device in group.devices)
    held = sum(bool(device.pods) for device in group.devices)
    unused = sum(device.unused for device in group.devices)
    free = f"{unused} unused, " if unused else ""
    figures = f"  {len(group.devices)} devices, {healthy} healthy, {free}{held} held  "
    name = cut(group.source, max(8, width - len(numa) - len(figures) - 10))
    role = role_of(group.connection) or BAD
    return [Part(f"{name}{numa}", TITLE), Part(figures), Part(group.connection, role)]


def glyph(device: DeviceTile) -> str:
    """Return a character that differs by health and by use, for terminals without colours."""
    if device.health == HEALTHY or device.unused:
        return "■" if device.pods else "□"
    return "x" if device.health == UNHEALTHY else "?"


def role_of_health(device: DeviceTile) -> str:
    """Return the role of a device's tile; one that no claim uses is dim, since nobody follows its health."""
    return DIM if device.unused else role_of(device.health) or PENDING


def _dense_tile(device: DeviceTile, chosen: bool) -> Line:
    return [Part("◆" if chosen else glyph(device), role_of_health(device))]


def _tile(device: DeviceTile, chosen: bool) -> Line:
    name = pad(device.name, 9)
    pod = pad(device.pods[0].partition("/")[2] if device.pods else "-", WIDE_TILE - 14)
    holder = CHOSEN if chosen else "" if device.pods else DIM
    left, right = ("[", "]") if chosen else (" ", " ")
    return [
        Part(left, CHOSEN),
        Part(f"{glyph(device)} {name}", role_of_health(device)),
        Part(f" {pod}", holder),
        Part(right, CHOSEN),
    ]
