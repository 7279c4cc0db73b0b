"""The console over a recording: the same screens, read-only, with a slider.

The slider shows the time, its place in the recording, and the faults.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType

from protocols.errors import NodeplaneError
from protocols.kinds import views
from protocols.kinds.table import EVENTS
from protocols.kube.meta import event_time
from protocols.process.texts import printable
from protocols.recording import sources
from protocols.recording.reader import Recording, step
from protocols.trace import Row
from supervisor.calls.client import CallBatch
from supervisor.console.app import DRAW_S, Screens, event_line
from supervisor.console.drawing.text import BAD, DIM, TITLE, Line, Part
from supervisor.console.model.devices import DeviceTile
from supervisor.console.model.pods import Pod
from supervisor.console.replay.world import overview, world_at
from supervisor.dra.show import explained
from supervisor.dra.sources import list_objects
from supervisor.why.command import diagnose_recorded
from supervisor.why.gather.dra import explanations
from supervisor.why.gather.replay import ReplaySources
from supervisor.why.model.text import lines
from supervisor.why.targets import WhyTarget

KEYS = "  , . step  [ ] 10 s  < > ends  space plays"


def slider_line(
    times: tuple[int, int, int], faults: Iterable[int], playing: bool, width: int, keys: str = KEYS
) -> Line:
    """Return `16:41:39 ──✗──█──── +42 s of 130 s` and the keys. `times`: begin, end and shown time in ms."""
    begin_ms, end_ms, at_ms = times
    clock = time.strftime("%H:%M:%S", time.localtime(at_ms / 1_000))
    place = f" +{(at_ms - begin_ms) // 1_000} s of {(end_ms - begin_ms) // 1_000} s"
    cells = max(5, width - len(clock) - len(place) - len(keys) - 4)
    marks = {_cell(fault, begin_ms, end_ms, cells) for fault in faults}
    here = _cell(at_ms, begin_ms, end_ms, cells)
    bar = [_part(cell, here, marks) for cell in range(cells)]
    return [Part(f"{'▶' if playing else ' '} {clock} ", TITLE), *bar, Part(place), Part(keys, DIM)]


def time_at(line: Line, begin_ms: int, end_ms: int, column: int) -> int | None:
    """Return the time at a column of a slider's line; None beside its bar, whose cells are parts of one column."""
    cells, cell = len(line) - 3, column - len(line[0].text)
    return begin_ms + (end_ms - begin_ms) * cell // (cells - 1) if 0 <= cell < cells else None


def _cell(at_ms: int, begin_ms: int, end_ms: int, cells: int) -> int:
    return min(cells - 1, max(0, (at_ms - begin_ms) * cells // max(1, end_ms - begin_ms)))


def _part(cell: int, here: int, marks: set[int]) -> Part:
    if cell == here:
        return Part("█", TITLE)
    return Part("✗", BAD) if cell in marks else Part("─", DIM)


JUMP_MS = 10_000
PLAY_S = 1.0
MAX_EVENTS = 50
READ_ONLY = "nothing can be changed: this is a recording"


class Replay(Screens):
    """Shows a recording at `at_ms`: its first node, or a further one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("comma,shift+left", "step(-1)", "step back", show=False),
        Binding("full_stop,shift+right", "step(1)", "step", show=False),
        Binding("left_square_bracket", "jump(-1)", "10 s back", show=False),
        Binding("right_square_bracket", "jump(1)", "10 s", show=False),
        Binding("less_than_sign", "go(0)", "begin", show=False),
        Binding("greater_than_sign", "go(1)", "end", show=False),
        Binding("space", "play", "play", show=False),
        Binding("n", "node", "next node", show=False),
    ]

    def __init__(self, recording: Recording, at_ms: int) -> None:
        known, history = overview(recording)
        super().__init__(world_at(recording, at_ms, history), read_only=READ_ONLY)
        self.recording, self.at_ms, self.playing, self.node = recording, at_ms, False, ""
        self._times, self._faults, self._history = recording.times(), known, history
        self._node_names = ["", *ReplaySources(recording, recording.end_ms).other_nodes()]

    async def on_mount(self) -> None:
        await self.begin()
        self.set_interval(PLAY_S, self._tick)

    def seek(self, at_ms: int) -> None:
        """Show another time of the recording."""
        at_ms = min(max(at_ms, self.recording.begin_ms), self.recording.end_ms)
        if at_ms != self.at_ms:
            self._show(at_ms, self.node)

    def _show(self, at_ms: int, node: str) -> None:
        version = self.world.version
        try:
            self.world = world_at(self.recording, at_ms, self._history, node)
        except NodeplaneError as error:
            self.report(str(error))
            return
        self.world.version, self.at_ms, self.node = version + 1, at_ms, node
        self.draw()

    def action_node(self) -> None:
        following = self._node_names[(self._node_names.index(self.node) + 1) % len(self._node_names)]
        if following != self.node:
            self._show(self.at_ms, following)

    def action_step(self, count: int) -> None:
        self.seek(step(self._times, self.at_ms, count))

    def action_jump(self, count: int) -> None:
        self.seek(self.at_ms + count * JUMP_MS)

    def action_go(self, end: int) -> None:
        self.seek(self.recording.end_ms if end else self.recording.begin_ms)

    def action_play(self) -> None:
        self.playing = not self.playing
        self.world.changed()

    def _tick(self) -> None:
        if self.playing:
            self.seek(self.at_ms + int(PLAY_S * 1_000))
            self.playing = self.at_ms < self.recording.end_ms

    def slider(self, width: int) -> Line | None:
        begin, end = self.recording.begin_ms, self.recording.end_ms
        keys = f"{KEYS}  n node {self.node or self.recording.header.node}" if len(self._node_names) > 1 else KEYS
        return slider_line((begin, end, self.at_ms), self._faults, self.playing, width, keys)

    def slide(self, column: int, width: int) -> None:
        line = self.slider(width)
        at_ms = time_at(line, self.recording.begin_ms, self.recording.end_ms, column) if line else None
        if at_ms is not None:
            self.seek(at_ms)

    async def events_of(self, pod: Pod) -> list[str]:
        about = f"involvedObject.uid={pod.uid}"
        try:
            events = (await self._sources().client.list(EVENTS, pod.namespace, field_selector=about))["items"]
        except NodeplaneError as error:
            return [f"(no events: {error})"]
        return [event_line(event) for event in sorted(events, key=event_time, reverse=True)[:MAX_EVENTS]]

    async def trace_of(self, pod: Pod) -> tuple[list[Row], str]:
        try:
            return (await self._sources().trace(pod.namespace, pod.uid)).rows, ""
        except NodeplaneError as error:
            return [], str(error)

    async def why_of(self, pod: Pod) -> list[str]:
        try:
            return lines(await diagnose_recorded(self.recording, self.at_ms, WhyTarget("pod", pod.name, pod.namespace)))
        except NodeplaneError as error:
            return [f"(no reason: {error})"]

    async def log_of(self, pod: Pod, container: str) -> str:
        metadata: views.ObjectMeta = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        try:
            return await self._sources().log({"metadata": metadata}, container, False)
        except NodeplaneError as error:
            return f"(no log: {error})"

    async def explain(self, device: DeviceTile) -> str:
        try:
            now = self._sources()
            objects = await list_objects(now.client, driver=device.id.partition("/")[0])
            matching = [
                explanation for explanation in await explanations(objects, now.gates) if explanation.device == device.id
            ]
        except NodeplaneError as error:
            return f"(not known: {error})"
        return "\n\n".join(map(explained, matching)) or "no ResourceSlice publishes this device"

    async def calls_of(self, peer: str) -> AsyncIterator[CallBatch]:
        shown = (-1, "")
        while True:
            if shown != (self.at_ms, self.node):
                shown = (self.at_ms, self.node)
                manager = await ReplaySources(self.recording, *shown).device_manager()
                calls = [call for call in manager.calls if call.peer == peer]
                ended, pending = ([record for record in calls if bool(record.status) == over] for over in (True, False))
                yield CallBatch(tuple(ended), tuple(pending), restarted=True)  # in place of what was shown
            await asyncio.sleep(DRAW_S)

    def watch_page_shown(self, shown: bool) -> None:
        """A recording has API processes' metrics as often as they were sampled."""

    def tail_of(self, instance: str, lines: int) -> list[str]:
        lines_of = f"{self.node}/{sources.LINES}" if self.node else sources.LINES
        entries = self.recording.entries((lines_of,), self.at_ms)
        return [printable(str(entry.value).expandtabs()) for entry, _ in entries if entry.key == instance][-lines:]

    def _sources(self) -> ReplaySources:
        return ReplaySources(self.recording, self.at_ms)
