"""The application as its screens know it."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence

from textual.app import App

from protocols.trace import Row
from supervisor.calls.client import CallBatch
from supervisor.console.drawing.text import Line
from supervisor.console.model.devices import DeviceTile
from supervisor.console.model.pods import Pod
from supervisor.console.model.world import World


class Host(App[None]):
    """Holds the world, and carries out what the user confirms."""

    world: World
    read_only: str
    """Why nothing can be changed; empty if it can. Screens then have no key for what changes something."""

    def slider(self, width: int) -> Line | None:
        """Return the slider of a recording; None on a running plane."""
        return None

    def slide(self, column: int, width: int) -> None:
        """Show the time at a column of the slider."""
        raise NotImplementedError

    def ask_order(self, instance: str, action: str) -> None:
        """Ask the user, then restart, kill, stop or continue an actor."""
        raise NotImplementedError

    def ask_device(self, device: DeviceTile, health: str) -> None:
        """Ask the user, then override a device's health; an empty health ends the override."""
        raise NotImplementedError

    def ask_delete(self, pod: Pod) -> None:
        """Ask the user, then delete a pod."""
        raise NotImplementedError

    def exec_in(self, pod: Pod, container: str, command: Sequence[str]) -> AsyncGenerator[bytes, None]:
        """Run a command, and yield its output. Raises NodeplaneError, also for another exit code than 0."""
        raise NotImplementedError

    async def shell_in(self, pod: Pod, container: str) -> None:
        """Give the terminal to a shell until it ends, or report why there is none."""
        raise NotImplementedError

    async def events_of(self, pod: Pod) -> list[str]:
        """Return lines of a pod's events, or why there are none."""
        raise NotImplementedError

    async def trace_of(self, pod: Pod) -> tuple[list[Row], str]:
        """Return a pod's trace; without one, why."""
        raise NotImplementedError

    async def why_of(self, pod: Pod) -> list[str]:
        """Return the lines of `nodeplane why` about a pod, or why there are none."""
        raise NotImplementedError

    async def log_of(self, pod: Pod, container: str) -> str:
        """Return the end of a container's log, or why there is none."""
        raise NotImplementedError

    async def explain(self, device: DeviceTile) -> str:
        """Return the attributes of a driver's device with their sources, or why they are unknown."""
        raise NotImplementedError

    def calls_of(self, peer: str) -> AsyncIterator[CallBatch]:
        """Yield calls of a plugin's resource or of a driver as they happen. Raises NodeplaneError."""
        raise NotImplementedError

    def watch_page_shown(self, shown: bool) -> None:
        """Choose how often metrics of API processes are read."""
        raise NotImplementedError

    def tail_of(self, instance: str, lines: int) -> list[str]:
        """Return the last lines of an actor's log, made printable."""
        raise NotImplementedError
