"""One actor: its state, its streams, the tail of its log, and what can be done to it."""

import asyncio
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from supervisor.console.drawing import text
from supervisor.console.drawing.text import BAD, DIM, LIT, PENDING, TITLE, Line, Part, cut, cut_middle, pad
from supervisor.console.model.plane import Actor
from supervisor.console.screens.detail import DetailScreen
from supervisor.console.widgets.style import text_of
from supervisor.root.logs import is_warning

LOG_LINES = 200


class ActorScreen(DetailScreen):
    """Screen of one actor; its log is read again every READ_S, its keys send orders to the supervisor."""

    KIND = "Actor"
    ABOUT = (
        "The streams of a process, the busiest first: messages a second, messages and revisions (MARK) by which the "
        "follower is behind the owner; then its log. s stops the process (SIGSTOP); "
        "its supervisor replaces it after some seconds if c does not continue it."
    )
    READ_S = 1.0
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "order('restart')", "restart"),
        Binding("k", "order('kill')", "kill"),
        Binding("s", "order('stop')", "stop"),
        Binding("c", "order('continue')", "continue"),
    ]

    def __init__(self, instance: str) -> None:
        super().__init__()
        self.instance = instance
        self._log: list[str] = []

    def compose(self) -> ComposeResult:
        yield Static(id="actor-head")
        yield from super().compose()

    def refresh_world(self, force: bool = False) -> None:
        super().refresh_world(force)
        if self.is_mounted:
            actor = self.host.world.house.actors.get(self.instance)
            self.query_one("#actor-head", Static).update(text_of([_head_line(self.instance, actor)]))

    def lines(self) -> list[Line]:
        return [*self._streams(), *self._log_lines()]

    async def read(self) -> None:
        self._log = await asyncio.to_thread(self.host.tail_of, self.instance, LOG_LINES)

    def action_order(self, action: str) -> None:
        self.host.ask_order(self.instance, action)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "order" or not self.host.read_only

    def _streams(self) -> list[Line]:
        house, width = self.host.world.house, self.size.width
        flows = [flow for flow in house.flows() if self.instance in (flow.owner, flow.follower)]
        flows.sort(key=lambda flow: (-flow.rate, not flow.lit, flow.stream))
        most = max(4, self.size.height // 2 - 3)
        name = max(16, width - 36)
        lines: list[Line] = [[Part(f"{'STREAM':<{name}} {'TO':<12} {'RATE':>7} {'LAG':>6} {'MARK':>6}", TITLE)]]
        for flow in flows[:most]:
            role = BAD if not flow.synced else LIT if flow.lit else DIM
            figures = f"{text.rate(flow.rate):>7} {text.number(flow.lag):>6} {text.number(flow.mark_lag):>6}"
            lines.append([Part(f"{pad(cut_middle(flow.label, name), name)} {pad(flow.follower, 12)} {figures}", role)])
        if len(flows) > most:
            lines.append([Part(f"... and {len(flows) - most} more", DIM)])
        return lines

    def _log_lines(self) -> list[Line]:
        width = self.size.width - 2
        lines: list[Line] = [[], [Part("LOG (newest first)", TITLE)]]
        for entry in reversed(self._log):
            lines.append([Part(cut(entry, width), PENDING if is_warning(entry) else "")])
        return lines


def _head_line(name: str, actor: Actor | None) -> Line:
    if actor is None:
        return [Part(f"{name} is not part of this plane", BAD)]
    status = actor.status
    words = f"{name}  {actor.state}  pid {status.pid or '-'}  {actor.usage.cpu:.1f}% {actor.usage.pss:.1f} MiB"
    took = f" ({text.seconds(actor.took_s)})" if actor.took_s is not None else ""
    why = actor.problem or (status.beat.note if status.beat else "")
    return [
        Part(words, TITLE),
        Part(f"  ↻{status.restarts}{took}  "),
        Part(cut(why, 200), BAD if actor.problem else ""),
    ]
