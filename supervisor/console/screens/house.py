"""House: every actor a box, every stream an arrow that lights as it carries messages."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.events import Click
from textual.geometry import Region
from textual.widgets import Static

from supervisor.console.drawing import picture, text
from supervisor.console.drawing.text import BAD, DIM, LIT, TITLE, Line, Part, cut, pad
from supervisor.console.model.plane import Actor, Flow
from supervisor.console.screens.actor import ActorScreen
from supervisor.console.widgets.frame import Frame, Orders
from supervisor.console.widgets.style import text_of

SIDE_FROM = 124
"""Columns from which the streams have a table beside the picture."""
PICTURE_WIDTH = 92
OTHER_LINES = 4
"""Lines of tabs, details and keys."""
MAX_STREAMS = 200


class HouseScreen(Frame):
    """The screen of the picture; arrows choose a box."""

    TITLE_OF_TAB = "House"
    ABOUT = (
        "Each box is a process: state, CPU and memory (PSS), pid, restarts and how long the last one took. Below: "
        "messages per second that it receives, and open watches of an API process (28w). Double arrows carried a "
        "message just now. A double frame is an actor that does not do its work. Enter opens one: streams, log, keys."
    )
    CHANGES = ("order",)
    SORTS: ClassVar[Orders] = {
        "as drawn": None,
        "CPU": lambda actor: -actor.usage.cpu,
        "memory": lambda actor: -actor.usage.pss,
        "restarts": lambda actor: -actor.status.restarts,
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move(-1, 0)", "left", show=False),
        Binding("right", "move(1, 0)", "right", show=False),
        Binding("up", "move(0, -1)", "up", show=False),
        Binding("down", "move(0, 1)", "down", show=False),
        Binding("tab", "next(1)", "next", show=False),
        Binding("shift+tab", "next(-1)", "previous", show=False),
        Binding("enter", "open", "open"),
        Binding("r", "order('restart')", "restart"),
        Binding("k", "order('kill')", "kill"),
        Binding("s", "order('stop')", "stop"),
        Binding("c", "order('continue')", "continue"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.chosen = ""
        self._picture_width = PICTURE_WIDTH

    def compose_body(self) -> ComposeResult:
        with Horizontal(id="house"):
            with VerticalScroll(id="picture-scroll", can_focus=False):
                yield Static(id="picture")
            yield Static(id="streams")
        yield Static(id="detail")

    def refresh_body(self) -> None:
        house = self.world.house
        if self.chosen not in house.actors:
            self.chosen = next((name for row in picture.grid(house) for name in row if name in house.actors), "")
        wide = self.size.width >= SIDE_FROM
        width = PICTURE_WIDTH if wide else self.size.width
        self.query_one("#picture-scroll").styles.width = width if wide else "1fr"
        matching = frozenset(a.name for a in house.actors.values() if self._found(a)) if self.pattern else None
        lines = picture.draw(house, picture.Look(width=width, chosen=self.chosen, matching=matching))
        if len(lines) > self.size.height - OTHER_LINES:  # a scroll bar takes a column
            width -= 1
            lines = picture.draw(house, picture.Look(width=width, chosen=self.chosen, matching=matching))
        self._picture_width = width
        self.query_one("#picture", Static).update(text_of(lines))
        streams = self.query_one("#streams", Static)
        streams.display = wide
        if wide:
            streams.update(text_of(self._streams(self.size.width - PICTURE_WIDTH - 1, self.size.height - 6)))
        self.query_one("#detail", Static).update(text_of(self._detail()))

    def ordered(self) -> list[Actor]:
        """Return the matching actors in the chosen order, which Tab goes through."""
        actors = [actor for actor in self.world.house.actors.values() if self._found(actor)]
        if self.sort:
            return self.in_order(actors)
        drawn = [name for row in picture.grid(self.world.house) for name in row]
        return sorted(actors, key=lambda actor: drawn.index(actor.name))

    def action_move(self, across: int, down: int) -> None:
        house = self.world.house
        self._choose(picture.neighbour(picture.grid(house), self.chosen, across, down, house.actors))

    def action_next(self, step: int) -> None:
        names = [actor.name for actor in self.ordered()]
        if names:
            at = names.index(self.chosen) + step if self.chosen in names else 0
            self._choose(names[at % len(names)])

    def action_sort(self) -> None:
        """Change the order, and choose its first actor, such as the one with most CPU."""
        super().action_sort()
        if actors := self.ordered():
            self._choose(actors[0].name)

    def action_open(self) -> None:
        if self.chosen:
            self.app.push_screen(ActorScreen(self.chosen))

    @on(Click, "#picture")
    def _picture_clicked(self, event: Click) -> None:
        if name := picture.actor_at(self.world.house, self._picture_width, event.x, event.y):
            self._choose(name)
            self.action_open()

    def action_order(self, action: str) -> None:
        if self.chosen:
            self.host.ask_order(self.chosen, action)

    def _choose(self, name: str) -> None:
        """Choose an actor and scroll to its box."""
        self.chosen = name
        self.refresh_world(force=True)
        top = picture.line_of(self.world.house, name)
        region = Region(0, top, 1, picture.BOX_LINES)
        self.query_one("#picture-scroll").scroll_to_region(region, animate=False, force=True)

    def _found(self, actor: Actor) -> bool:
        return self.matches(actor.name, actor.state, actor.status.group, actor.problem)

    def _detail(self) -> list[Line]:
        actor = self.world.house.actors.get(self.chosen)
        if actor is None:
            return [[], []]
        width = self.size.width
        took = f", the last took {text.seconds(actor.took_s)}" if actor.took_s is not None else ""
        restarts = f"{actor.status.restarts} restarts{took}"
        head = f"{actor.name}  {actor.state}  up {text.age(actor.status.uptime_s)}  {restarts}"
        why = actor.problem or (actor.status.beat.note if actor.status.beat else "") or actor.status.last_reason
        return [[Part(cut(head, width), TITLE)], [Part(cut(why or "-", width), BAD if actor.problem else "")]]

    def _streams(self, width: int, height: int) -> list[Line]:
        """Return the streams of the chosen actor first, then the busiest ones."""
        flows = [flow for flow in self.world.house.flows() if self.matches(flow.owner, flow.stream, flow.follower)]
        mine = {self.chosen}
        flows.sort(key=lambda flow: (not ({flow.owner, flow.follower} & mine), -flow.rate, -flow.lag, not flow.lit))
        name = max(10, width - 26)
        lines: list[Line] = [[Part(f"{'STREAM':<{name}} {'TO':<11} {'RATE':>6} {'LAG':>5}", TITLE)]]
        return lines + [_flow_line(flow, name) for flow in flows[: max(1, min(height, MAX_STREAMS))]]


def _flow_line(flow: Flow, name: int) -> Line:
    role = BAD if not flow.synced else LIT if flow.lit else DIM
    label = pad(flow.label, name)
    lag = text.number(flow.lag) if flow.synced else "stale"
    return [Part(f"{label} {pad(flow.follower, 11)} {text.rate(flow.rate):>6} {lag:>5}", role)]
