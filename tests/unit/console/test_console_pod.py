"""A pod's page of the console: how its last run ended, the last steps, and its log on a small terminal."""

import asyncio
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

import pytest
from textual.app import App
from textual.geometry import Size

from protocols.kubeclient.exec import CommandFailed
from protocols.trace import Row
from supervisor.console.drawing import trace
from supervisor.console.drawing.text import Line, Part
from supervisor.console.model.execution import Execution
from supervisor.console.model.pods import pod_of
from supervisor.console.screens import pod as page_of_pod
from supervisor.console.screens.detail import DetailScreen
from supervisor.console.screens.pod import PodScreen

CRASHED = {"exitCode": 3, "reason": "Error", "message": "no licence", "finishedAt": "2026-01-01T00:00:00Z"}


def crash_loop(**status: Any) -> dict[str, Any]:
    state = {"waiting": {"reason": "CrashLoopBackOff"}}
    container = {"name": "main", "ready": False, "restartCount": 4, "state": state, **status}
    return {
        "metadata": {"uid": "u", "name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "i"}]},
        "status": {"phase": "Running", "containerStatuses": [container]},
    }


@pytest.mark.parametrize(
    ("status", "ended"),
    [
        ({"lastState": {"terminated": CRASHED}}, "exit code 3 at "),
        ({"state": {"terminated": {"exitCode": 0}}}, "exit code 0"),
        ({}, ""),
        ({"lastState": {"terminated": "garbage"}}, ""),
    ],
)
def test_container_shows_how_its_last_run_ended(status: dict[str, Any], ended: str) -> None:
    (container,) = pod_of(crash_loop(**status)).containers
    assert container.ended.startswith(ended)
    assert bool(ended) == bool(container.ended)
    assert ("Error, no licence" in container.ended) == (ended == "exit code 3 at ")


class Page(PodScreen):
    host = SimpleNamespace(  # type: ignore[assignment]  # the part of an app that the page reads
        world=SimpleNamespace(pods=SimpleNamespace(items={}), devices=SimpleNamespace(of_pod=lambda uid: []))
    )
    size = Size(80, 24)


def test_crash_loop_shows_exit_code_last_steps_and_log_on_80_by_24(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [[Part(f"step {number}")] for number in range(188)]
    monkeypatch.setattr(trace, "lines", lambda rows, width: [[Part("title")], *steps])
    monkeypatch.setattr(page_of_pod, "is_cut", lambda rows: False)
    page = Page(pod_of(crash_loop(lastState={"terminated": CRASHED})))
    page._trace = [Row("", "", 0, 0, 0, {}, 0)] * 188
    page._log = "\n".join(f"line {number}" for number in range(10))
    page._events = [f"event {number}" for number in range(30)]
    reason = "container main ended with exit code 3 at 12:00:00 (2 s ago), after 0.1 s; it was restarted 4 times"
    page._why = [f"pod/default/p: crash loop: {reason}", *(f"  evidence {number}" for number in range(10))]
    text = ["".join(part.text for part in line) for line in page.lines()]
    seen = "\n".join(text[:23])
    assert text[1].startswith("pod/default/p: crash loop: container main ended")
    assert all(text[at] for at in range(1, 7)), "the sentence and its first evidence"
    assert "evidence 9" not in seen
    assert "last run: exit code 3" in seen
    assert [line for line in text if line.startswith("step")] == [f"step {number}" for number in range(183, 188)]
    assert "all 188 steps" in seen
    assert "line 9" in seen
    assert text.index("OLDER LOG") > text.index("event 29")
    assert text[-1] == "line 0"


async def test_pod_is_diagnosed_again_when_it_changes_or_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def why_of(pod: Any) -> list[str]:
        asked.append(pod.status)
        return [f"pod/default/p: {pod.status}"]

    page = Page(pod_of(crash_loop()))
    monkeypatch.setattr(page.host, "why_of", why_of, raising=False)
    await page._ask_why()
    await page._ask_why()
    page._pod = pod_of(crash_loop(restartCount=5))
    await page._ask_why()
    assert len(asked) == 2
    monkeypatch.setattr(page_of_pod, "WHY_S", 0.0)
    await page._ask_why()
    assert len(asked) == 3
    assert page._why == ["pod/default/p: CrashLoopBackOff"]


async def executed(monkeypatch: pytest.MonkeyPatch, command: str, run: Any) -> list[str]:
    """Return the page once a command has been run."""
    page = Page(pod_of(crash_loop()))
    monkeypatch.setattr(page.host, "exec_in", run, raising=False)
    page._execution = Execution("main", command)
    await page._run(page._execution)
    return ["".join(part.text for part in line) for line in page.lines()]


async def test_command_shows_its_output_and_how_it_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    async def run(pod: Any, container: str, words: list[str]) -> AsyncGenerator[bytes, None]:
        asked.append((container, words))
        yield b"one\n\x1b[2Jtw"
        yield b"o\n" + b"x" * 200
        if words[0] == "false":
            raise CommandFailed("command terminated with non-zero exit code: exit status 1")

    text = await executed(monkeypatch, "sh -c 'a | b'", run)
    assert asked == [("main", ["sh", "-c", "a | b"])]
    assert text[2:7] == ["EXEC in main: sh -c 'a | b'", "exit code 0", "", "one", "\\x1b[2Jtwo"]
    assert max(map(len, text)) <= 80
    assert "exit status 1" in (await executed(monkeypatch, "false", run))[3]
    assert "No closing quotation" in (await executed(monkeypatch, "sh -c 'a", run))[3]


async def test_command_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []

    async def run(pod: Any, container: str, words: list[str]) -> AsyncGenerator[bytes, None]:
        try:
            while words[0] == "yes":
                yield b"y\n" * 16384
            await asyncio.sleep(60)
            yield b""
        finally:
            closed.append(words[0])

    assert "too much output: disconnected" in await executed(monkeypatch, "yes", run)
    monkeypatch.setattr(page_of_pod, "EXEC_S", 0.01)
    assert "not ended in 0.01 s: disconnected" in await executed(monkeypatch, "sleep", run)
    assert closed == ["yes", "sleep"]


async def test_reading_that_takes_longer_than_its_period_is_shown() -> None:
    began, ready = [], asyncio.Event()

    class Slow(DetailScreen):
        READ_S = 3600.0
        text = "reading"

        def lines(self) -> list[Line]:
            return [[Part(self.text)]]

        async def read(self) -> None:
            began.append(self.text)
            await ready.wait()
            self.text = "done"

    page = Slow()
    app: App[None] = App()
    async with app.run_test() as pilot:
        await app.push_screen(page)
        await pilot.pause()
        for _ in range(3):
            page._read_next()
            await pilot.pause()
        ready.set()
        await app.workers.wait_for_complete()
        assert (page.text, began) == ("done", ["reading"])
        page._read_next()
        await app.workers.wait_for_complete()
        assert began == ["reading", "done"]
