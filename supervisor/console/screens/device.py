"""One device: the pods that it hurts, the calls of its plugin or driver, its health history, and its attributes."""

import time
from collections.abc import Iterator
from itertools import islice
from typing import ClassVar

from textual.binding import Binding, BindingType

from protocols.errors import NodeplaneError
from supervisor.calls.text import INDENT, record_lines
from supervisor.console.drawing import tiles
from supervisor.console.drawing.text import BAD, DIM, PENDING, TITLE, Line, Part, cut, pad, safe, wrap
from supervisor.console.model.calls import Calls
from supervisor.console.model.devices import DeviceTile
from supervisor.console.screens.detail import MAX_LINES, DetailScreen

CALL_LINES = 8
"""Lines of calls above the history of health: seen without scrolling on a small terminal."""


class DeviceScreen(DetailScreen):
    """Attributes, health history, calls, and the pods that a device hurts."""

    KIND = "Device"
    ABOUT = (
        "The pods that have the device, the calls of its plugin or driver as they happen (c shows more of them), its "
        "health since the console runs, and of a DRA device each attribute with its source: the driver's slice or a "
        "patch. b makes it unhealthy, h ends that."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "whole", "calls"),
        Binding("b", "health('unhealthy')", "break"),
        Binding("h", "health('')", "heal"),
    ]

    def __init__(self, device: DeviceTile) -> None:
        super().__init__()
        self._device = device
        self._explained = "reading the ResourceSlices ..." if device.dra else ""
        self._calls = Calls()
        self._no_calls = "none yet"

    def on_mount(self) -> None:
        """Textual calls that of the base as well."""
        self.run_worker(self._follow_calls(), group="calls", exit_on_error=False)

    async def _follow_calls(self) -> None:
        """Collect calls as they happen; the application's timer draws them."""
        try:
            async for batch in self.host.calls_of(self._device.source):
                self._calls.take(batch, time.monotonic())
        except NodeplaneError as error:
            self._no_calls = str(error)

    async def read(self) -> None:
        if self._device.dra:
            self._explained = await self.host.explain(self._device)

    def action_health(self, health: str) -> None:
        self.host.ask_device(self._device, health)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "health" or not self.host.read_only

    def lines(self) -> list[Line]:
        model = self.host.world.devices
        current = next((tile for tile in model.all() if tile.key == self._device.key), None)
        if current is None:
            return [[Part(f"{safe(self._device.id)} is gone", TITLE)]]
        self._device = device = current
        if self.whole:
            return [self._calls_title(), *islice(self._call_lines(), MAX_LINES)]
        numa = f"NUMA {','.join(map(str, device.numa))}" if device.numa else "no NUMA node"
        connection = model.connection(device.source, device.dra)
        kind = "driver" if device.dra else "plugin"
        lines: list[Line] = [
            [Part(safe(device.id), TITLE)],
            [Part(f"{safe(device.source)}  {numa}  {kind} {connection}")],
            [Part(f"{device.health}  ", tiles.role_of_health(device)), Part(safe(device.message))],
            [],
            [Part("HURTS" if device.health != "Healthy" else "PODS", TITLE)],
            *([Part(safe(pod))] for pod in device.pods or ("no pod has it",)),
            [],
            self._calls_title(),
            *islice(self._call_lines(), CALL_LINES),
            [],
            [Part("HEALTH", TITLE), Part("  (newest first, while the console runs)", DIM)],
        ]
        for changed_ns, health, message in model.history(device):
            lines.append([Part(f"{_clock(changed_ns / 1e9)}  {pad(health, 10)} {safe(message)}")])
        if self._explained:
            lines += [[], [Part("ATTRIBUTES", TITLE)], *([Part(safe(line))] for line in self._explained.splitlines())]
        return lines

    def _calls_title(self) -> Line:
        more = "" if self.whole or not len(self._calls) else f"; c: all {len(self._calls)}"
        return [Part(f"CALLS of {safe(self._device.source)}", TITLE), Part(f"  (newest first{more})", DIM)]

    def _call_lines(self) -> Iterator[Line]:
        """Yield the calls, each line cut to the width of the page; if they are shown in full, it is folded."""
        width = self.size.width - 2
        if not len(self._calls):
            yield [Part(cut(self._no_calls, width), DIM)]
        for record in self._calls.newest_first():
            role = "" if record.status == "OK" else BAD if record.status else PENDING
            for at, line in enumerate(record_lines(record)):
                for part in wrap(line, width, len(INDENT) + 2) if self.whole else [cut(line, width)]:
                    yield [Part(part, "" if at else role)]


def _clock(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(seconds))
