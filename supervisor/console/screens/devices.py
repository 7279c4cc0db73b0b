"""Devices: tiles by resource or driver and NUMA node, coloured by health."""

from typing import ClassVar

from msgspec.structs import replace
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.widgets import Static

from protocols.messages.devices import HEALTHY
from supervisor.console.drawing import text, tiles
from supervisor.console.drawing.text import DIM, TITLE, Line, Part, cut
from supervisor.console.model.devices import ORDER, DeviceTile
from supervisor.console.screens.device import DeviceScreen
from supervisor.console.widgets.frame import Frame, Orders
from supervisor.console.widgets.listing import Listing
from supervisor.console.widgets.style import text_of


class DevicesScreen(Frame):
    """The screen of devices; arrows choose a tile."""

    TITLE_OF_TAB = "Devices"
    ABOUT = (
        "A tile is a device: ■ healthy and held, □ healthy and free, x unhealthy, ? unknown. "
        "A dim □ is a DRA device that no claim on this node uses: its health is not followed. "
        "Groups are a resource or DRA driver on one NUMA node, with the state of its connection. "
        "Enter opens a device: attributes with who said what, health history, the pods it hurts."
    )
    LISTING = "tiles"
    CHANGES = ("health",)
    SORTS: ClassVar[Orders] = {
        "name": None,
        "health": lambda device: (ORDER.get(device.health, 1), not device.pods),
        "pod": lambda device: (not device.pods, device.pods),
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "step(-1)", "left", show=False, priority=True),
        Binding("right", "step(1)", "right", show=False, priority=True),
        Binding("up", "step_row(-1)", "up", show=False, priority=True),
        Binding("down", "step_row(1)", "down", show=False, priority=True),
        Binding("enter", "open", "open"),
        Binding("b", "health('unhealthy')", "break"),
        Binding("h", "health('')", "heal"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.chosen: tuple[str, str] | None = None
        self._devices: list[DeviceTile] = []
        self._rows: list[tiles.Row] = []
        self._dense = False

    def compose_body(self) -> ComposeResult:
        yield Listing(id=self.LISTING, reverse=False)
        yield Static(id="detail", classes="three")

    def on_resize(self, event: Resize) -> None:
        self.refresh_world(force=True)

    @property
    def device(self) -> DeviceTile | None:
        return next((device for device in self._devices if device.key == self.chosen), None)

    def refresh_body(self) -> None:
        model, width = self.world.devices, self.size.width - 1
        devices = [device for device in model.all() if self._found(device)] if self.pattern else model.all()
        groups = [replace(group, devices=tuple(self.in_order(group.devices))) for group in model.groups(devices)]
        self._devices = [device for group in groups for device in group.devices]
        if self._devices and self.device is None:
            self.chosen = self._devices[0].key
        self._dense = len(self._devices) > tiles.WIDE_MOST
        self._rows = tiles.rows(groups, width, dense=self._dense)
        self.listing.show([Part(self._summary())], self._rows, _key_of_row, self._line)
        self._move_cursor()
        self.query_one("#detail", Static).update(text_of(self._detail()))

    def action_step(self, by: int) -> None:
        if self._devices:
            at = next((at for at, device in enumerate(self._devices) if device.key == self.chosen), 0)
            self._show_chosen(self._devices[max(0, min(len(self._devices) - 1, at + by))])

    def action_step_row(self, by: int) -> None:
        """Go to the tile above or below, over headings."""
        at, offset = self._place()
        target = at + by
        while 0 <= target < len(self._rows) and not self._rows[target].count:
            target += by
        if 0 <= target < len(self._rows):
            row = self._rows[target]
            self._show_chosen(row.group.devices[row.first + min(offset, row.count - 1)])

    def action_open(self) -> None:
        if device := self.device:
            self.app.push_screen(DeviceScreen(device))

    def action_health(self, health: str) -> None:
        if device := self.device:
            self.host.ask_device(device, health)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("step", "step_row"):
            return not self.query_one("#filter").display
        return super().check_action(action, parameters)

    def open_row(self, row: tiles.Row, column: int) -> None:
        """Open the device whose tile is there."""
        offset = tiles.tile_at(row, column, dense=self._dense)
        if offset is not None:
            self._show_chosen(row.group.devices[row.first + offset])
            self.action_open()

    def _show_chosen(self, device: DeviceTile) -> None:
        self.chosen = device.key
        self.refresh_world(force=True)
        self.listing.follow()

    def _place(self) -> tuple[int, int]:
        """Return the row of the chosen device and its offset in it."""
        for at, row in enumerate(self._rows):
            for offset in range(row.count):
                if row.group.devices[row.first + offset].key == self.chosen:
                    return at, offset
        return 0, 0

    def _move_cursor(self) -> None:
        """Move to the chosen device's row; where the user has scrolled to stays while it is the same one."""
        if by := self._place()[0] - self.listing.cursor:
            self.listing.action_move(by)

    def _line(self, row: tiles.Row, width: int) -> Line:
        return tiles.line(row, width, dense=self._dense, chosen=self.chosen)

    def _found(self, device: DeviceTile) -> bool:
        return self.matches(device.source, device.id, device.health, *device.pods)

    def _summary(self) -> str:
        healthy = sum(device.health == HEALTHY for device in self._devices)
        held = sum(bool(device.pods) for device in self._devices)
        unused = sum(device.unused for device in self._devices)
        free = f"{unused} unused, " if unused else ""
        total = len(self.world.devices.all())
        shown = f"{len(self._devices)} of {total}" if self.pattern else str(total)
        return (
            f"{shown} devices, {healthy} healthy, {free}{held} held by pods" if total else "no device is reported yet"
        )

    def _detail(self) -> list[Line]:
        device, width = self.device, self.size.width
        if device is None:
            return [[Part("try: nodeplane plugin --resource example.com/gpu --devices 4", DIM)]]
        since = f" for {text.age(self.world.now() - device.changed_ns / 1e9)}" if device.changed_ns else ""
        state = f"{device.health}{since}  {device.message}"
        holder = f"pods: {', '.join(device.pods) or '-'}  containers: {', '.join(device.containers) or '-'}"
        head = f"{device.id}  {device.source}  "
        return [
            [Part(cut(head, width), TITLE)],
            [Part(cut(state, width), tiles.role_of_health(device))],
            [Part(cut(holder, width))],
        ]


def _key_of_row(row: tiles.Row) -> object:
    return row.group.source, row.group.numa, row.first, row.count > 0
