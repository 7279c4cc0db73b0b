"""The application: modes by key, a clock that draws, and actions that ask first."""

import asyncio
import shlex
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

from textual.app import SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.css.query import NoMatches
from textual.screen import Screen

from protocols.errors import NodeplaneError
from protocols.process.layout import Layout, layout
from protocols.trace import Row
from supervisor.calls.client import CallBatch
from supervisor.console.drawing.text import safe
from supervisor.console.feed.feed import Feed
from supervisor.console.model.devices import DeviceTile
from supervisor.console.model.pods import Pod
from supervisor.console.model.world import World
from supervisor.console.screens.devices import DevicesScreen
from supervisor.console.screens.house import HouseScreen
from supervisor.console.screens.pleg import PlegScreen
from supervisor.console.screens.pods import PodsScreen
from supervisor.console.screens.timeline import TimelineScreen
from supervisor.console.screens.watch import WatchScreen
from supervisor.console.widgets.dialogs import Question
from supervisor.console.widgets.frame import TABS, label_of
from supervisor.console.widgets.host import Host
from supervisor.root.logs import path_of, tail
from supervisor.trace.collect import pod_trace
from supervisor.why.command import diagnose
from supervisor.why.model.text import lines
from supervisor.why.targets import WhyTarget

DRAW_S = 0.5
"""Time between two drawings; nothing is drawn when nothing changed."""
WORDS = {
    "restart": "Restart {name} in an orderly way?",
    "kill": "Kill {name} (SIGKILL)?",
    "stop": "Stop {name} (SIGSTOP)? Its supervisor replaces it after some seconds.",
    "continue": "Continue {name} (SIGCONT)?",
}


READ_ONLY = "nothing can be changed: this console was started with --read-only"
CHANGING = "bcdhkrsx"
"""Keys that change something on one screen or another."""


KUBECTL = "kubectl"
SHELL = "sh"


class Screens(Host):
    """The screens over a world, and the clock that draws them."""

    CSS_PATH = "console.tcss"
    TITLE = "nodeplane"
    ENABLE_COMMAND_PALETTE = False
    MODES: ClassVar[dict[str, str | Callable[[], Screen[Any]]]] = {
        "house": HouseScreen,
        "devices": DevicesScreen,
        "pods": PodsScreen,
        "watch": WatchScreen,
        "pleg": PlegScreen,
        "timeline": TimelineScreen,
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(key), f"switch_mode('{name}')", label_of(name), show=False) for key, name in enumerate(TABS, 1)),
        Binding("q", "quit", "quit"),
        *(Binding(key, f"reject('{key}')", show=False) for key in CHANGING),
    ]

    def __init__(self, world: World, *, read_only: str) -> None:
        super().__init__(ansi_color=True)
        self.world = world
        self.read_only = read_only

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Reject a key only where it would change something: these come after the keys of the screen."""
        if action != "reject":
            return True
        return bool(self.read_only) and any(_is_of(binding, parameters) for binding in self.screen.BINDINGS)

    def action_reject(self, key: str) -> None:
        self.report(self.read_only)

    async def begin(self) -> None:
        """Show the first screen, and draw changes from now on."""
        await self.switch_mode("house")
        self.set_interval(DRAW_S, self.draw)

    def report(self, reason: str) -> None:
        """Show why an action failed."""
        self.notify(safe(reason), severity="error", markup=False)

    def draw(self) -> None:
        """Draw the current screen; one whose widgets are not there, or no longer, is left to the next tick."""
        screen = self.screen_stack[-1] if self.screen_stack else None
        if screen is not None and hasattr(screen, "refresh_world"):
            with suppress(NoMatches):
                screen.refresh_world()


class Console(Screens):
    """Shows the plane below a layout. `read_only` turns off every key that changes it."""

    def __init__(self, layout: Layout, *, read_only: bool = False) -> None:
        super().__init__(World(), read_only=READ_ONLY if read_only else "")
        self.layout = layout
        self.feed = Feed(layout, self.world)

    async def on_mount(self) -> None:
        await self.feed.start()
        await self.begin()

    async def on_unmount(self) -> None:
        await self.feed.close()

    def ask_order(self, instance: str, action: str) -> None:
        order = partial(self.feed.supervisors.order, instance, action)
        self._ask(WORDS[action].format(name=instance), f"{action} {instance}", order)

    def ask_device(self, device: DeviceTile, health: str) -> None:
        order = partial(self.feed.break_device, "" if device.dra else device.source, device.id, health)
        self._ask(f"Make {device.id} {health}?" if health else f"End the override of {device.id}?", device.id, order)

    def ask_delete(self, pod: Pod) -> None:
        self._ask(f"Delete pod {pod.key}?", f"delete {pod.key}", partial(self.feed.api.delete, pod))

    def exec_in(self, pod: Pod, container: str, command: Sequence[str]) -> AsyncGenerator[bytes, None]:
        return self.feed.api.exec_in(pod, container, command)

    async def shell_in(self, pod: Pod, container: str) -> None:
        command = shell_command(self.layout, pod, container)
        try:
            with self.batch_update(), self.suspend():  # nothing is drawn meanwhile
                failure = await run_shell(command)
        except SuspendNotSupported:
            failure = f"a shell needs a terminal, which this page is not; in one: {shlex.join(command)}"
        if failure:
            self.report(failure)

    async def events_of(self, pod: Pod) -> list[str]:
        try:
            return [event_line(event) for event in await self.feed.api.events_of(pod.uid, pod.namespace)]
        except NodeplaneError as error:
            return [f"(no events: {error})"]

    async def trace_of(self, pod: Pod) -> tuple[list[Row], str]:
        try:
            trace = await pod_trace(self.layout, pod.namespace, pod.uid)
        except (NodeplaneError, OSError) as error:
            return [], str(error)
        return trace.rows, ""

    async def why_of(self, pod: Pod) -> list[str]:
        try:
            return lines(await diagnose(self.layout, WhyTarget("pod", pod.name, pod.namespace)))
        except (NodeplaneError, OSError) as error:
            return [f"(no reason: {error})"]

    async def log_of(self, pod: Pod, container: str) -> str:
        try:
            return await self.feed.api.log_of(pod.namespace, pod.name, container)
        except NodeplaneError as error:
            return f"(no log: {error})"

    async def explain(self, device: DeviceTile) -> str:
        try:
            return await self.feed.api.explain(device.id)
        except NodeplaneError as error:
            return f"(not known: {error})"

    def calls_of(self, peer: str) -> AsyncIterator[CallBatch]:
        return self.feed.calls(peer)

    def watch_page_shown(self, shown: bool) -> None:
        self.feed.metrics.watched = shown

    def tail_of(self, instance: str, lines: int) -> list[str]:
        return tail(path_of(self.layout.logs, instance), lines)

    def _ask(self, words: str, subject: str, order: Callable[[], Awaitable[None]]) -> None:
        """Ask, then carry out an order about a subject."""

        def answered(yes: bool | None) -> None:
            if yes:
                self.run_worker(self._carry_out(subject, order), exit_on_error=False)

        if not self.read_only:
            self.push_screen(Question(words), answered)

    async def _carry_out(self, subject: str, order: Callable[[], Awaitable[None]]) -> None:
        try:
            await order()
        except (TimeoutError, NodeplaneError, OSError) as error:
            self.report(f"{subject}: {error}")


def _is_of(binding: BindingType, key: tuple[object, ...]) -> bool:
    return isinstance(binding, Binding) and (binding.key,) == key


def event_line(event: dict[str, Any]) -> str:
    """Return an event of the API as one line: time, type, reason, count, message."""
    when = str(event.get("lastTimestamp") or event.get("eventTime") or "-")
    count = f" x{event['count']}" if isinstance(event.get("count"), int) and event["count"] > 1 else ""
    return safe(f"{when[11:19]}  {event.get('type')}  {event.get('reason')}{count}  {event.get('message')}")


def shell_command(where: Layout, pod: Pod, container: str) -> list[str]:
    """Return the command that opens a shell, with the rights of the plane's kubeconfig."""
    config = layout(str(where.plane)).kubeconfig
    words = [KUBECTL, f"--kubeconfig={config}", f"--namespace={pod.namespace}", "exec", "-it", pod.name]
    return [*words, f"--container={container}", "--", SHELL]


async def run_shell(command: Sequence[str]) -> str:
    """Run it in the terminal; return why it failed, empty for a shell that was left."""
    try:
        process = await asyncio.create_subprocess_exec(*command)
    except FileNotFoundError:
        return f"a shell needs {command[0]}, which is not installed; x runs a command without it"
    except OSError as error:
        return f"{command[0]}: {error}"
    code = await process.wait()
    return f"the shell ended with exit code {code}" if code else ""
