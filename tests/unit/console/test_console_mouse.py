"""Mouse and keys on the console: what a click opens, orders and answers, what scrolls, and who gets which key."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from textual.events import Key, MouseScrollDown
from textual.pilot import Pilot
from textual.widgets import Input

from protocols.messages.devices import HEALTHY, Device, DeviceHealth, ResourceInventory
from protocols.messages.supervisor import ActorStatus, PlaneStatus
from supervisor.console.app import Screens
from supervisor.console.drawing import picture
from supervisor.console.drawing.text import word_at
from supervisor.console.model.pods import Pod, pod_of
from supervisor.console.model.world import World
from supervisor.console.screens.actor import ActorScreen
from supervisor.console.screens.device import DeviceScreen
from supervisor.console.screens.pod import PodScreen
from supervisor.console.widgets.dialogs import Help, Question
from supervisor.console.widgets.frame import tab_at
from supervisor.console.widgets.listing import Listing

REPO = Path(__file__).parents[3]
PODS, DEVICES = 60, 100
ACTORS = ("store", "watchcache", "apiserver-0", "pleg", "devices")


class Shown(Screens):
    """The screens over a world that does not change; `deleted` is the pods that were to be deleted."""

    CSS_PATH = str(REPO / "supervisor/console/console.tcss")
    deleted: list[str]

    async def on_mount(self) -> None:
        self.deleted = []
        await self.begin()

    def ask_delete(self, pod: Pod) -> None:
        def answered(yes: bool | None) -> None:
            self.deleted += [pod.name] if yes else []

        self.push_screen(Question(f"Delete pod {pod.key}?"), answered)

    async def events_of(self, pod: Pod) -> list[str]:
        return []

    async def trace_of(self, pod: Pod) -> tuple[list[Any], str]:
        return [], ""

    async def why_of(self, pod: Pod) -> list[str]:
        return ["why"]

    async def log_of(self, pod: Pod, container: str) -> str:
        return ""

    async def calls_of(self, peer: str) -> AsyncIterator[Any]:
        for never in list[Any]():
            yield never

    def watch_page_shown(self, shown: bool) -> None:
        pass

    def tail_of(self, instance: str, lines: int) -> list[str]:
        return []


def pod(number: int) -> dict[str, Any]:
    metadata = {"namespace": "default", "name": f"pod-{number:02}", "uid": f"u{number}"}
    spec = {"containers": [{"name": "main", "image": "box"}]}
    statuses = [{"name": "main", "restartCount": number}]
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Running", "containerStatuses": statuses}}


def world() -> World:
    made = World()
    actors = tuple(ActorStatus(name, "control", 1, "live", 1.0, 0, "") for name in ACTORS)
    made.house.update(PlaneStatus("supervisor", 1, 1.0, actors, {}), 1.0)
    for number in range(PODS):
        made.pods.put(pod_of(pod(number)))
    made.pods.synced = True
    ids = [f"gpu-{number}" for number in range(DEVICES)]
    devices = tuple(Device("example.com/gpu", id) for id in ids)
    made.devices.inventory = {"example.com/gpu": ResourceInventory("example.com/gpu", True, devices)}
    made.devices.health = {f"example.com/gpu {id}": DeviceHealth("example.com/gpu", id, HEALTHY) for id in ids}
    return made


@pytest.fixture
async def pilot() -> AsyncIterator[Pilot[None]]:
    async with Shown(world(), read_only="").run_test(size=(100, 24)) as pilot:
        await until(pilot, lambda: pilot.app.screen.id != "_default")
        yield pilot


async def until(pilot: Pilot[None], holds: Callable[[], object]) -> None:
    for _ in range(200):
        if holds():
            return
        await pilot.pause(0.01)
    raise AssertionError(f"not in time: {pilot.app.screen_stack}")


async def shows(pilot: Pilot[None], tab: str) -> None:
    """Click on a tab."""
    column = next(column for column in range(80) if tab_at(column) == tab)
    await pilot.click("#tabs", offset=(column, 0))
    await until(pilot, lambda: pilot.app.current_mode == tab)
    await pilot.pause()


async def test_row_that_is_clicked_opens(pilot: Pilot[None]) -> None:
    await shows(pilot, "pods")
    await pilot.click("#pods", offset=(5, 4))
    await until(pilot, lambda: isinstance(pilot.app.screen, PodScreen))
    screen = pilot.app.screen
    assert isinstance(screen, PodScreen)
    assert screen._pod.name == "pod-03"


async def test_header_that_is_clicked_orders_by_its_column(pilot: Pilot[None]) -> None:
    await shows(pilot, "pods")
    listing = pilot.app.screen.query_one("#pods", Listing)
    column = "".join(part.text for part in listing._header).index("RESTARTS")
    await pilot.click("#pods", offset=(column + 2, 0))
    await until(pilot, lambda: listing.rows[0].name == f"pod-{PODS - 1}")
    await pilot.click("#pods", offset=(1, 0))
    await until(pilot, lambda: listing.rows[0].name == "pod-00")


async def test_wheel_scrolls_rows_and_tiles_and_drawing_leaves_them(pilot: Pilot[None]) -> None:
    for tab, name in (("pods", "#pods"), ("devices", "#tiles")):
        await shows(pilot, tab)
        listing = pilot.app.screen.query_one(name, Listing)
        x, y = listing.region.x + 2, listing.region.y + 2
        for _ in range(2):
            event = MouseScrollDown(listing, x, y, 0, 0, 0, False, False, False, x, y)
            pilot.app.screen._forward_event(event)
        await pilot.pause(0.05)
        scrolled = listing.scroll_offset.y
        assert scrolled
        pilot.app.screen.refresh_world(force=True)  # type: ignore[attr-defined]
        await pilot.pause(0.05)
        assert listing.scroll_offset.y == scrolled


async def test_tile_that_is_clicked_opens_its_device(pilot: Pilot[None]) -> None:
    await shows(pilot, "devices")
    await pilot.click("#tiles", offset=(30, 3))
    await until(pilot, lambda: isinstance(pilot.app.screen, DeviceScreen))
    assert isinstance(pilot.app.screen, DeviceScreen)
    assert pilot.app.screen._device.id == "gpu-7"


async def test_box_that_is_clicked_opens_its_actor(pilot: Pilot[None]) -> None:
    place = next(
        (column, line)
        for line in range(20)
        for column in range(90)
        if picture.actor_at(pilot.app.world.house, 100, column, line) == "pleg"  # type: ignore[attr-defined]
    )
    await pilot.click("#picture", offset=place)
    await until(pilot, lambda: isinstance(pilot.app.screen, ActorScreen))
    assert isinstance(pilot.app.screen, ActorScreen)
    assert pilot.app.screen.instance == "pleg"


async def test_question_and_help_are_answered_by_clicks(pilot: Pilot[None]) -> None:
    app = pilot.app
    assert isinstance(app, Shown)
    await shows(pilot, "pods")
    for hint, deleted in ((1, []), (0, ["pod-00"])):
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, Question))
        await pilot.click(list(app.screen.query("Hint"))[hint])
        await until(pilot, lambda: not isinstance(app.screen, Question))
        assert app.deleted == deleted
    await pilot.press("question_mark")
    await until(pilot, lambda: isinstance(app.screen, Help))
    await pilot.click(offset=(1, 1))
    await until(pilot, lambda: not isinstance(app.screen, Help))


async def test_keys_that_follow_a_slash_at_once_are_the_filters(pilot: Pilot[None]) -> None:
    await shows(pilot, "pods")
    for character in "/pod-1d/":
        pilot.app.post_message(Key({"/": "slash", "-": "minus"}.get(character, character), character))
    field = pilot.app.screen.query_one("#filter", Input)
    await until(pilot, lambda: field.value == "pod-1d/")
    assert len(pilot.app.screen_stack) == 1, "d deletes nothing"


def test_word_at_is_the_one_whose_column_it_is() -> None:
    header = "POD (3)   READY STATUS"
    assert [word_at(header, at) for at in (0, 3, 4, 9, 10, 15, 16, 99)] == [
        "POD", "POD", "(3)", "(3)", "READY", "READY", "STATUS", "STATUS",
    ]  # fmt: skip
    assert word_at("  A", 0) == ""


def test_actor_at_is_the_box_there_and_none_between_boxes() -> None:
    house = world().house
    lines = ["".join(part.text for part in line) for line in picture.draw(house, picture.Look(width=100))]
    for name in ACTORS:
        line = picture.line_of(house, name)
        column = lines[line].index(name)
        assert picture.actor_at(house, 100, column, line) == name
        assert picture.actor_at(house, 100, column, line + picture.BOX_LINES - 1) == name
    assert picture.actor_at(house, 100, picture.box_width(100) + 1, 0) == ""
    assert picture.actor_at(house, 100, 5, 99) == ""
