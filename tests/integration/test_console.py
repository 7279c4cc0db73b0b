"""Every screen and key of `nodeplane console`, driven by Textual's pilot over a real plane."""

import asyncio
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import yaml
from textual.pilot import Pilot
from textual.widgets import Input

from protocols.process.layout import layout
from supervisor.console.app import Console
from tests.support.chromium import CHROMIUM, CODES, Tab, tab
from tests.support.plane import BIN, REPO, Plane
from tests.support.waiting import saw, until, until_async

TIMEOUT_S = 30.0


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with Plane() as plane:
        plane.settled()
        yield plane


@pytest.fixture(scope="module")
def pod(plane: Plane) -> str:
    """A running pod with two of four devices."""
    plane.plugin()
    manifest = yaml.safe_load((REPO / "examples" / "gpu-pod.yaml").read_text())
    plane.apply(manifest)
    plane.pod_ready(manifest["metadata"]["name"])
    return str(manifest["metadata"]["name"])


class Driven:
    """A console under a pilot."""

    def __init__(self, app: Console, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def text(self) -> str:
        """What the terminal shows."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip) for strip in strips)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def shows(self, *words: str, timeout: float = TIMEOUT_S) -> str:
        def found() -> bool:
            text = self.text
            return all(word in text for word in words)

        await self.until(found, str(words), timeout)
        return self.text

    @property
    def screen(self) -> Any:
        """The screen that is shown, whichever it is."""
        return self.app.screen

    async def until(self, holds: Callable[[], object], what: str = "", timeout: float = TIMEOUT_S) -> None:
        deadline = asyncio.get_running_loop().time() + timeout
        while not holds():
            assert asyncio.get_running_loop().time() < deadline, f"not in {timeout:g} s: {what}\n{self.text}"
            await self.pilot.pause(0.05)


@asynccontextmanager
async def console(plane: Plane, size: tuple[int, int] = (80, 24), *, read_only: bool = False) -> AsyncIterator[Driven]:
    app = Console(layout(str(plane.root)), read_only=read_only)
    try:
        async with app.run_test(size=size, notifications=True) as pilot:
            driven = Driven(app, pilot)
            await driven.until(lambda: app.world.house.settled, "the plane settles")
            await driven.shows("podworker")
            yield driven
    finally:
        await abort_connections()


async def abort_connections() -> None:
    """Abort what a cancelled TLS handshake leaves open: asyncio waits for a peer that may be stopped."""
    for key in list(asyncio.get_running_loop()._selector.get_map().values()):  # type: ignore[attr-defined]
        owner = getattr(getattr(key.data[0], "_callback", None), "__self__", None) if key.data else None
        if isinstance(owner, asyncio.Transport):
            owner.abort()
    await asyncio.sleep(0)


async def test_house_80_columns_shows_every_actor_with_its_streams(plane: Plane) -> None:
    async with console(plane) as driven:
        await driven.until(lambda: driven.app.world.house.memory.last(), "memory is measured")
        shown = await driven.shows("apiserver-0", "watchcache", "podworker", "frontdoor", "live", "objects/*")
        assert max(map(len, shown.splitlines())) <= 80
        assert str(driven.app.world.house.actors["pleg"].status.pid) in shown
        flows = {(flow.owner, flow.follower) for flow in driven.app.world.house.flows()}
        assert {("watchcache", "apiserver-0"), ("cri", "pleg"), ("pleg", "podworker")} <= flows


async def test_house_arrows_go_from_box_to_box_also_after_a_filter(plane: Plane) -> None:
    async with console(plane) as driven:
        await driven.press("slash", "x", "enter", "escape")
        await driven.until(lambda: not driven.screen.pattern)
        visited = []
        for key in ("down", "right", "down", "right", "down", "up", "left", "tab", "shift+tab"):
            await driven.press(key)
            visited.append(driven.screen.chosen)
        assert visited == ["store", "watchcache", "cri", "pleg", "health", "pleg", "cri", "pleg", "cri"]


async def test_house_killed_actor_turns_red_and_returns_with_its_restart_time(plane: Plane) -> None:
    async with console(plane) as driven:
        actor = driven.app.world.house.actors["health"]
        pid = actor.status.pid
        await driven.press("slash", *"health", "enter", "tab")
        await driven.until(lambda: driven.screen.chosen == "health")
        await driven.press("k")
        await driven.shows("Kill health (SIGKILL)?")
        await driven.press("y")
        await driven.shows("health", "↻1")
        await driven.until(lambda: driven.app.world.house.actors["health"].took_s is not None, "it is back")
        now = driven.app.world.house.actors["health"]
        assert now.status.pid != pid
        assert now.took_s is not None
        assert 0 < now.took_s < 20


async def test_question_answered_no_changes_nothing(plane: Plane) -> None:
    async with console(plane) as driven:
        before = {name: actor.status.pid for name, actor in driven.app.world.house.actors.items()}
        for key in "rksc":
            await driven.press(key)
            await driven.shows("y  yes")
            await driven.press("n")
        await driven.until(lambda: "y  yes" not in driven.text)
        assert before == {name: actor.status.pid for name, actor in driven.app.world.house.actors.items()}


async def test_read_only_keys_that_change_do_nothing(plane: Plane) -> None:
    async with console(plane, read_only=True) as driven:
        assert "kill" not in driven.text
        await driven.press("k")
        await driven.press("r")
        await driven.pilot.pause()
        assert "yes" not in driven.text
        await driven.shows("read-only", "nothing can be changed")
        await driven.press("enter")
        await driven.shows("LOG")
        await driven.press("k")
        await driven.pilot.pause()
        assert "yes" not in driven.text


@pytest.mark.heavy
async def test_actor_screen_stop_and_continue_are_seen(plane: Plane) -> None:
    async with console(plane) as driven:
        pid = driven.app.world.house.actors["health"].status.pid
        await driven.press("slash", *"health", "enter", "tab", "enter")
        await driven.shows("LOG", "health/resource-status")
        await driven.press("s")
        await driven.shows("Stop health")
        await driven.press("y")
        await driven.until(lambda: state(pid) == "T", "it is stopped")
        await driven.shows("health  stopped", "stopped by a signal")
        await driven.press("c")
        await driven.shows("Continue health")
        await driven.press("y")
        await driven.until(lambda: state(pid) != "T", "it goes on, or was replaced")
        await driven.press("escape")
        await driven.until(lambda: driven.app.world.house.settled)


async def test_help_lists_the_keys_of_the_screen(plane: Plane) -> None:
    async with console(plane) as driven:
        await driven.press("question_mark")
        shown = await driven.shows("House", "restart", "filter", "order", "help", "Timeline", "quit")
        assert "Each box is a process" in shown
        assert "┗━" in shown, "its frame fits 80 x 24"
        await driven.press("escape")
        await driven.until(lambda: "filter" in driven.text)


@pytest.mark.heavy
async def test_order_of_house_chooses_the_actor_with_most_memory(plane: Plane) -> None:
    async with console(plane) as driven:
        await driven.until(lambda: driven.app.world.house.memory.last(), "memory is measured")
        await driven.press("o", "o")
        await driven.shows("order: memory")
        actors = driven.app.world.house.actors
        assert driven.screen.chosen == max(actors, key=lambda name: actors[name].usage.pss)


async def test_wide_terminal_lists_streams_beside_the_picture(plane: Plane) -> None:
    async with console(plane, (140, 40)) as driven:
        await driven.shows("STREAM", "LAG", "core/")


async def test_plane_whose_supervisor_is_stopped_is_reported_and_returns(plane: Plane) -> None:
    async with console(plane) as driven:
        pid = driven.app.world.house.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            await driven.until(lambda: driven.app.world.house.failure, "the console notices")
            await driven.shows("podworker")
        finally:
            os.kill(pid, signal.SIGCONT)
        await driven.until(lambda: driven.app.world.house.settled, "the plane is back")


async def test_devices_break_and_heal_are_seen_with_the_pods_they_hurt(plane: Plane, pod: str) -> None:
    async with console(plane) as driven:
        await driven.press("2")
        await driven.shows("4 devices, 4 healthy, 2 held", "example.com/gpu  NUMA 0", "serves", pod)
        await driven.press("slash", *"gpu-1", "enter")
        await driven.shows("1 of 4 devices")
        await driven.press("b")
        await driven.shows("Make gpu-1 unhealthy?")
        await driven.press("y")
        await driven.shows("x gpu-1", "Unhealthy for", f"default/{pod}")
        await driven.press("enter")
        await driven.shows("HURTS", f"default/{pod}", "HEALTH", "Healthy", "Unhealthy")
        await driven.press("h", "y")
        await driven.shows("PODS", "Healthy")
        await driven.press("escape")
        await driven.shows("1 of 4 devices, 1 healthy")
        await driven.press("escape")
        await driven.shows("4 devices, 4 healthy")


async def test_devices_keys_go_over_tiles_and_orders(plane: Plane, pod: str) -> None:
    async with console(plane) as driven:
        await driven.press("2")
        await driven.shows("gpu-3")
        visited = [driven.screen.device.id]
        for key in ("right", "down", "left", "up"):
            await driven.press(key)
            visited.append(driven.screen.device.id)
        assert visited == ["gpu-0", "gpu-1", "gpu-3", "gpu-2", "gpu-0"]
        for order in ("health", "pod"):
            await driven.press("o")
            await driven.shows(f"order: {order}")


@pytest.mark.heavy
async def test_pods_page_has_containers_devices_events_and_log(plane: Plane, pod: str) -> None:
    async with console(plane, (100, 70)) as driven:
        await driven.press("3")
        await driven.shows(pod, "1/1", "Running", "gpu-0 gpu-1")
        await driven.press("enter")
        await driven.shows("devices: gpu-0, gpu-1", "CONTAINER", "main", "Scheduled", "LOG of main", "my devices:")
        await driven.shows("TRACE", "podworker", "ms")
        await driven.shows(f"pod/default/{pod}: running", "holds example.com/gpu gpu-0")
        await driven.press("t")
        await driven.until(lambda: "LOG of" not in driven.text, "the whole trace")
        await driven.shows("scheduler", "podworker")
        await driven.press("question_mark")
        await driven.shows("t shows all steps", "next log")
        await driven.press("escape", "escape")
        await driven.shows("LOG of main")
        await driven.press("t", "t", "l", "escape", "o", "o", "o")
        await driven.shows("order: age")
        await driven.press("slash", *"nothing", "enter")
        await driven.shows("POD (0)")


@pytest.mark.heavy
async def test_pod_is_deleted_once_its_name_was_confirmed(plane: Plane, pod: str) -> None:
    container = {"name": "a", "image": "busybox:1", "command": ["sleep", "1000"]}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    plane.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "victim"}, "spec": spec})
    async with console(plane) as driven:
        await driven.press("3", "slash", *"victim", "enter")
        await driven.shows("POD (1)")
        await driven.press("d")
        await driven.shows("Delete pod default/victim?")
        await driven.press("n", "enter")
        await driven.shows("default/victim", "TRACE")
        await driven.press("d")
        await driven.shows("Delete pod default/victim?")
        await driven.press("y")
        await driven.until(lambda: "default/victim" not in driven.app.world.pods.items, "the pod is gone")
        assert f"default/{pod}" in driven.app.world.pods.items


@pytest.mark.heavy
async def test_command_runs_in_the_container_of_a_pods_page(plane: Plane, pod: str) -> None:
    async with console(plane, (100, 40)) as driven:
        await driven.press("3", "slash", *pod, "enter")
        await driven.shows("POD (1)")
        await driven.press("enter")
        await driven.shows("LOG of main")
        for command, seen in {
            "sh -c 'echo here; echo $((6 * 7)) >&2; exit 3'": ("here", "42", "exit status 3"),
            "no-such-command": ("no-such-command", "not found"),
            "echo done": ("done", "exit code 0"),
        }.items():
            await driven.press("x")
            await driven.shows(f"Command in container main of pod default/{pod}")
            driven.app.screen.query_one("#answer", Input).value = command
            await driven.press("enter")
            await driven.shows("EXEC in main", *seen)
        await driven.press("escape")
        await driven.shows("LOG of main")
        await driven.press("s")
        await driven.shows("a shell needs a terminal")


async def test_device_page_shows_calls_as_they_happen(plane: Plane, pod: str) -> None:
    async with console(plane, (120, 40)) as driven:
        await driven.press("2", "slash", *"gpu-3", "enter")
        await driven.shows("1 of 4 devices")
        await driven.press("enter")
        await driven.shows("CALLS of example.com/gpu", "Allocate", f"default/{pod} main", "OK")
        limits = {"resources": {"limits": {"example.com/gpu": "1"}}}
        container = {"name": "a", "image": "busybox:1", "command": ["sleep", "1000"], **limits}
        spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
        plane.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "second"}, "spec": spec})
        await driven.shows("default/second a")
        await driven.press("c")
        await driven.until(lambda: "HEALTH" not in driven.text, "the calls alone")
        await driven.shows("default/second a", f"default/{pod} main", "ListAndWatch")
    plane.delete("pod", "second")


@pytest.mark.heavy
async def test_watch_killed_server_watches_resume_without_lists(plane: Plane, pod: str) -> None:
    async with console(plane, (100, 30)) as driven:
        await driven.press("4")
        await driven.shows("watchcache", "core/pods", "CACHE", "BEHIND")
        page = driven.app.world.watch

        def pods() -> Any:
            return next(row for row in page.rows(driven.app.world.house, 0.0) if row.name == "core/pods")

        await driven.until(lambda: pods().watches.open > 3, "metrics are read, the console's own watch too")
        before = pods().watches
        await driven.app.feed.supervisors.order("apiserver-0", "kill")
        await driven.until(lambda: pods().watches.resumed > before.resumed, "watches resume")
        assert pods().watches.relisted == before.relisted
        await driven.press("slash", *"core/pods", "enter")
        await driven.until(lambda: "core/nodes" not in driven.text)
        assert page.store_revision > 0
    plane.served()


@pytest.mark.heavy
async def test_pleg_death_of_a_container_is_an_event_and_a_latency(plane: Plane, pod: str) -> None:
    async with console(plane) as driven:
        await driven.press("5")
        await driven.shows("mode evented", "switches:")
        await driven.until(lambda: driven.app.world.pleg.synced and driven.app.world.pods.synced)
        plane.kubectl("exec", pod, "--", "sh", "-c", "kill 1", check=False)
        await driven.shows("ContainerDied", f"default/{pod}")
        await driven.until(lambda: driven.app.world.pleg.latency.quantile(0.5, time.time()), "a latency")
        await driven.shows("ContainerStarted", "p50")
        latency = driven.app.world.pleg.latency.quantile(0.99, time.time())
        assert latency is not None
        assert latency < 20


async def test_timeline_plots_processor_memory_and_rates(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supervisor.console.feed.feed.SMALL_S", 0.5)
    async with console(plane, (100, 40)) as driven:
        await driven.press("6")
        await driven.shows("CPU", "memory (PSS)", "bus messages", "store commits", "API requests")
        await driven.until(lambda: driven.app.world.timeline.rates["store commits"].last() is not None)
        await driven.press("slash", *"cpu", "enter")
        await driven.until(lambda: "memory" not in driven.text)


@pytest.mark.heavy
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (Debian: chromium)")
async def test_web_actor_killed_from_the_page_comes_back(plane: Plane) -> None:
    before = plane.status()["health"]
    command = [str(BIN / "nodeplane"), "console", "--root", str(plane.root), "--web"]
    server = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert server.stdout is not None
        await server.stdout.readline()
        url = (await server.stdout.readline()).decode().strip()
        async with tab(url) as page:
            await page.receives("watchcache")
            assert await page.value("location.search") == ""
            assert await page.value("document.cookie") == "", "scripts must not see the session"
            focus = "document.activeElement.className.includes('xterm')"
            await until_async("the terminal has the focus", lambda: page.value(focus), 30)
            steps = {"/": "filter:", "health": "/health", "Enter": "open", "Tab": "┏━health", "k": "Kill health"}
            for keys, seen in steps.items():
                since = len(page.frames)
                for key in [keys] if keys in CODES else keys:
                    await page.key(key)
                await page.receives(seen, since)
            since = len(page.frames)
            await page.key("y")
            await page.receives(f"↻{before['restarts'] + 1} ", since)
            assert await page.screenshot()
            await page.command(
                "Emulation.setDeviceMetricsOverride", width=1600, height=1000, deviceScaleFactor=1, mobile=False
            )
            bottom = "innerHeight - document.querySelector('.xterm-screen').getBoundingClientRect().bottom"
            await until_async("all lines fit the larger page", lambda: _fits(page, bottom), 30)
            since = len(page.frames)
            for kind in ("mousePressed", "mouseReleased"):
                at = {"x": 190, "y": 8, "button": "left", "clickCount": 1}
                await page.command("Input.dispatchMouseEvent", type=kind, **at)
            await page.receives("RESTARTS", since)
            assert page.faults == []
        after = plane.settled()["health"]
        assert after["pid"] != before["pid"]
    finally:
        server.terminate()
        await server.wait()
    left = [line for line in plane.processes().values() if "supervisor.cli.main console" in line]
    assert left == [], "the page's console outlived its server"


async def _fits(page: Tab, below: str) -> bool:
    """Return True if less than a line of the page is empty below the terminal, and no line is cut."""
    return bool(0 <= await page.value(below) < 25)


class Terminal:
    """A console in a terminal of 80 x 24 of its own."""

    def __init__(self, plane: Plane, kind: str, *environment: str, flags: tuple[str, ...] = ("--read-only",)) -> None:
        self._name = f"np{os.getpid()}{kind}"
        words = ["env", f"TERM={kind}", *environment, str(BIN / "nodeplane"), "console", *flags]
        command = shlex.join([*words, "--root", str(plane.root)])
        self.tmux("new-session", "-d", "-x", "80", "-y", "24", command)

    def tmux(self, *words: str, check: bool = True) -> str:
        command = ["tmux", "-L", self._name, "-f", "/dev/null", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=check).stdout

    @property
    def shown(self) -> str:
        return self.tmux("capture-pane", "-p")

    def shows(self, text: str) -> bool:
        saw(shown := self.shown)
        return text in shown

    @property
    def ended(self) -> bool:
        saw(self.tmux("capture-pane", "-p", check=False))
        return not self.tmux("ls", check=False)


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed (Debian: tmux)")
def test_terminals_with_and_without_colours_show_and_obey(plane: Plane) -> None:
    terminals = [Terminal(plane, "screen-256color"), Terminal(plane, "vt100", "NO_COLOR=1")]
    try:
        until("the house", lambda: all("podworker" in terminal.shown for terminal in terminals), 30)
        assert not any("kill" in terminal.shown for terminal in terminals)
        for key, word in {"3": "RESTARTS", "4": "BEHIND", "5": "mode ", "6": "15 MINUTES", "2": "device"}.items():
            for terminal in terminals:
                terminal.tmux("send-keys", key)
            for terminal in terminals:
                until(f"screen {key}", partial(terminal.shows, word), 30)
        for terminal in terminals:
            terminal.tmux("send-keys", "q")
        until("they end", lambda: all(terminal.ended for terminal in terminals), 30)
    finally:
        for terminal in terminals:
            terminal.tmux("kill-server", check=False)


@pytest.mark.heavy
@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed (Debian: tmux)")
def test_shell_has_the_terminal_until_it_ends(plane: Plane, pod: str) -> None:
    terminal = Terminal(plane, "screen", f"PATH={BIN}:{os.environ['PATH']}", flags=())
    try:
        until("the house", lambda: "podworker" in terminal.shown, 30)  # it reads keys
        for keys, seen in (
            (("3",), pod),
            (("/", pod, "Enter"), "POD (1)"),
            (("Enter",), "LOG of main"),
            (("s",), "#"),
            (("echo $((6 * 7))", "Enter"), "42"),
            (("exit", "Enter"), "LOG of main"),
            (("Escape",), "POD (1)"),
        ):
            terminal.tmux("send-keys", *keys)
            until(f"{seen} after {keys}", partial(terminal.shows, seen), 30)
    finally:
        terminal.tmux("kill-server", check=False)


async def test_every_actor_may_die_while_the_console_goes_on(plane: Plane, pod: str) -> None:
    async with console(plane) as driven:
        house = driven.app.world.house
        began = time.time()
        names = list(house.actors)
        await asyncio.gather(*(driven.app.feed.supervisors.order(name, "kill") for name in names))
        await driven.until(lambda: all(actor.last_death >= began for actor in house.actors.values()), "all die")
        await driven.shows("╔═")
        await driven.until(lambda: house.settled and driven.app.world.devices.all(), "all are back", 60)
        for key, word in {"2": "4 devices, 4 healthy", "3": "Running", "4": "core/pods", "5": "mode evented"}.items():
            await driven.press(key)
            await driven.shows(word, timeout=60)
    plane.settled()


def state(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return ""
