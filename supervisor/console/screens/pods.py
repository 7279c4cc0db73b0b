"""Pods: phase, containers, devices and restarts of every pod of the plane."""

from typing import ClassVar

from rich.cells import cell_len
from textual.binding import Binding, BindingType

from supervisor.console.drawing.text import BAD, GOOD, PENDING, Line, Part, age, cut, pad
from supervisor.console.model.pods import Pod
from supervisor.console.screens.pod import PodScreen
from supervisor.console.widgets.frame import Frame, Orders

FIXED = 44
"""Columns of everything beside the name and the devices."""


class PodsScreen(Frame):
    """Screen of all pods of the API, with the devices that this node gave them."""

    TITLE_OF_TAB = "Pods"
    ABOUT = (
        "Every pod of the API, as its watch reports it, with the devices that the node gave it. "
        "Enter opens a pod: containers, devices, events and logs. d deletes it, and asks first."
    )
    LISTING = "pods"
    CHANGES = ("delete",)
    SORTS: ClassVar[Orders] = {
        "name": lambda pod: (pod.namespace, pod.name),
        "status": lambda pod: (pod.status in ("Running", "Succeeded"), pod.status, pod.key),
        "restarts": lambda pod: (-pod.restarts, pod.key),
        "age": lambda pod: (-pod.created, pod.key),
    }
    ORDERED_BY: ClassVar[dict[str, int]] = {"POD": 0, "STATUS": 1, "RESTARTS": 2, "AGE": 3}
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "open", "open"), Binding("d", "delete", "delete")]

    def refresh_body(self) -> None:
        pods = self.in_order(
            pod for pod in self.world.pods.items.values() if self.matches(pod.key, pod.status, pod.node)
        )
        self.listing.show(self._header(len(pods)), pods, lambda pod: pod.uid, self._line)

    def action_open(self) -> None:
        if pod := self.listing.chosen:
            self.app.push_screen(PodScreen(pod))

    def open_row(self, row: Pod, column: int) -> None:
        self.app.push_screen(PodScreen(row))

    def action_delete(self) -> None:
        if pod := self.listing.chosen:
            self.host.ask_delete(pod)

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
