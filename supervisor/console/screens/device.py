"""One device: its health history, the pods that it hurts, and its attributes."""

import time
from typing import ClassVar

from textual.binding import Binding, BindingType

from supervisor.console.drawing import tiles
from supervisor.console.drawing.text import DIM, TITLE, Line, Part, pad, safe
from supervisor.console.model.devices import Device
from supervisor.console.screens.detail import DetailScreen


class DeviceScreen(DetailScreen):
    """Attributes, health history, and the pods that a device hurts."""

    KIND = "Device"
    ABOUT = (
        "The pods that have the device, its health since the console runs, and of a DRA device each attribute "
        "with its source: the driver's slice or a patch. b makes it unhealthy, h ends that."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("b", "health('unhealthy')", "break"),
        Binding("h", "health('')", "heal"),
    ]

    def __init__(self, device: Device) -> None:
        super().__init__()
        self._device = device
        self._explained = "reading the ResourceSlices ..." if device.dra else ""

    async def read(self) -> None:
        if self._device.dra:
            self._explained = await self.host.explain(self._device)

    def action_health(self, health: str) -> None:
        self.host.ask_device(self._device, health)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "health" or not self.host.read_only

    def lines(self) -> list[Line]:
        model = self.host.world.devices
        found = next((each for each in model.all() if each.key == self._device.key), None)
        if found is None:
            return [[Part(f"{safe(self._device.id)} is gone", TITLE)]]
        self._device = device = found
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
            [Part("HEALTH", TITLE), Part("  (newest first, while the console runs)", DIM)],
        ]
        for changed_ns, health, message in model.history(device):
            lines.append([Part(f"{_clock(changed_ns / 1e9)}  {pad(health, 10)} {safe(message)}")])
        if self._explained:
            lines += [[], [Part("ATTRIBUTES", TITLE)], *([Part(safe(line))] for line in self._explained.splitlines())]
        return lines


def _clock(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(seconds))
