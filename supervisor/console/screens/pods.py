"""Pods: phase, containers, devices and restarts of every pod of the plane."""

from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget

from supervisor.console.drawing.text import BAD, GOOD, PENDING, Line, Part, age, cut, pad
from supervisor.console.model.pods import Pod
from supervisor.console.screens.pod import PodScreen
from supervisor.console.widgets.frame import Frame
from supervisor.console.widgets.listing import Listing

FIXED = 44
"""Columns of everything beside the name and the devices."""


class PodsScreen(Frame):
    """Screen of all pods of the API, with the devices that this node gave them."""

    TITLE_OF_TAB = "Pods"
    ABOUT = (
        "Every pod of the API, as its watch reports it, with the devices that the node gave it. "
        "Enter opens a pod: containers, devices, events and logs. d deletes it, and asks first."
    )
    SORTS: ClassVar[tuple[str, ...]] = ("name", "status", "restarts", "age")
    ORDERED_BY: ClassVar[dict[str, int]] = {"POD": 0, "STATUS": 1, "RESTARTS": 2, "AGE": 3}
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "open", "open"), Binding("d", "delete", "delete")]

    def compose_body(self) -> ComposeResult:
        yield Listing(id="pods")

    def main_widget(self) -> Widget:
        return self.query_one("#pods")

    def refresh_body(self) -> None:
        pods = [pod for pod in self.world.pods.items.values() if self._found(pod)]
        keys = (_name, _status, _restarts, _age)
        pods.sort(key=keys[self.sort])
        listing = self.query_one("#pods", Listing)
        listing.show(self._header(len(pods)), pods, _key, self._line)

    def action_open(self) -> None:
        if pod := self.query_one("#pods", Listing).chosen:
            self.app.push_screen(PodScreen(pod))

    def open_row(self, row: Pod, column: int) -> None:
        self.app.push_screen(PodScreen(row))

    def action_delete(self) -> None:
        if pod := self.query_one("#pods", Listing).chosen:
            self.host.ask_delete(pod)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return super().check_action(action, parameters) and (action != "delete" or not self.host.read_only)

    def _found(self, pod: Pod) -> bool:
        return not self.pattern or self.matches(pod.key, pod.status, pod.node)

    def _columns(self) -> tuple[int, int]:
        """Return the widths of the name and of the devices; the rest is fixed."""
        left = max(20, self.size.width - 1 - FIXED)
        return left * 2 // 3, left - left * 2 // 3

    def _header(self, count: int) -> Line:
        model = self.world.pods
        if not model.synced:
            return [Part(cut(f"waiting for the API: {model.failure or 'first list'}", self.size.width), PENDING)]
        name, devices = self._columns()
        away = "  (watch interrupted)" if model.failure else ""
        shown = f"POD ({count}){away}"
        return [Part(f"{pad(shown, name)} READY STATUS            RESTARTS AGE     {pad('DEVICES', devices)}")]

    def _line(self, pod: Pod, width: int) -> Line:
        name, devices = self._columns()
        ids = self.world.devices.of_pod(pod.uid)
        held = " ".join(ids)
        if cell_len(held) > devices:  # DRIVER/POOL/DEVICE: the driver is the same for most
            held = " ".join(device_id.rpartition("/")[2] for device_id in ids)
        ready = f"{pod.ready}/{len(pod.containers)}"
        since = age(self.world.now() - pod.created) if pod.created else "-"
        role = GOOD if pod.status in ("Running", "Succeeded", "Completed") else PENDING
        role = BAD if pod.phase == "Failed" or "Err" in pod.status or "BackOff" in pod.status else role
        return [
            Part(f"{pad(pod.key.removeprefix('default/'), name)} {ready:<5} "),
            Part(pad(pod.status, 17), role),
            Part(f" {pod.restarts:<8} {pad(since, 7)} {pad(held, devices)}"),
        ]


def _key(pod: Pod) -> object:
    return pod.uid


def _name(pod: Pod) -> tuple[object, ...]:
    return (pod.namespace, pod.name)


def _status(pod: Pod) -> tuple[object, ...]:
    return (pod.status in ("Running", "Succeeded"), pod.status, pod.key)


def _restarts(pod: Pod) -> tuple[object, ...]:
    return (-pod.restarts, pod.key)


def _age(pod: Pod) -> tuple[object, ...]:
    return (-pod.created, pod.key)
