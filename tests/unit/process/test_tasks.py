"""Owners of tasks: each policy reports, counts and recovers; and no task is started without an owner."""

import ast
import asyncio
import logging
import threading
from unittest.mock import Mock

import pytest
from prometheus_client import CollectorRegistry

from protocols.actor.context import Context, ContextOptions
from protocols.actor.metrics import TaskCollector
from protocols.process.tasks import FAILURES, HangingCalls, Tasks, Threads, TooManyHung, awaited, restarted
from tests.support.product import ROOT, product_modules
from tests.support.waiting import until_async

OWNER = "protocols/process/tasks.py"
UNOWNED = {"create_task", "ensure_future", "run_in_executor", "run_coroutine_threadsafe", "TaskGroup"}
EXECUTORS = {"ThreadPoolExecutor", "ProcessPoolExecutor"}
BLOCKING = {
    "actors/apiserver/api/request/workers.py": "each job has a future that its request awaits",
    "protocols/process/namespaces.py": "its caller blocks until the thread has ended",
    "supervisor/testing/evidence.py": "its caller blocks until the threads have ended",
}
"""Files with an executor of their own, and who hears of its failures."""


@pytest.fixture(autouse=True)
def no_failures() -> None:
    FAILURES.clear()


async def broken(error: Exception | None = None) -> None:
    await asyncio.sleep(0)
    raise error or ZeroDivisionError("a\nbug")


def counted(kind: str) -> float | None:
    registry = CollectorRegistry()
    registry.register(TaskCollector())
    return registry.get_sample_value("nodeplane_task_failures_total", {"task": kind})


async def test_task_that_fails_is_reported_on_one_line_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    tasks = Tasks()
    tasks.start(broken(), "probe", "default/a")
    await until_async("ended", lambda: not len(tasks))
    [line] = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert line.startswith("task probe default/a failed: ZeroDivisionError: a bug (")
    assert counted("probe") == 1


async def test_owner_is_told_of_a_task_that_fails_and_of_none_that_is_cancelled() -> None:
    told: list[tuple[str, str]] = []
    tasks = Tasks(lambda name, error: told.append((name, type(error).__name__)))
    tasks.start(broken(), "a")
    tasks.start(broken(KeyError("x")), "b", on_failure=lambda name, error: told.append((name, "its own")))
    tasks.start(asyncio.Event().wait(), "c")
    await until_async("ended", lambda: len(tasks) == 1)
    await tasks.close()
    assert sorted(told) == [("a", "ZeroDivisionError"), ("b", "its own")]
    assert not len(tasks)
    assert counted("c") is None


async def test_task_that_closes_its_owner_is_not_cancelled_by_itself() -> None:
    tasks = Tasks()
    other = tasks.start(asyncio.Event().wait(), "other")
    await tasks.start(tasks.close(), "closing")
    assert other.cancelled()


async def test_restarted_work_runs_again_after_growing_pauses(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def paused(seconds: float) -> None:
        if seconds:
            pauses.append(seconds)
        await sleep(0)

    async def work() -> None:
        if len(pauses) < 12:
            await broken()

    monkeypatch.setattr(asyncio, "sleep", paused)
    await restarted(work, "follower", "gpu")
    assert pauses[:4] == [0.1, 0.2, 0.4, 0.8]
    assert max(pauses) == pauses[-1] == 30.0
    assert counted("follower") == 12
    assert "task follower gpu failed: ZeroDivisionError" in caplog.text


async def test_awaited_task_raises_where_it_is_awaited() -> None:
    with pytest.raises(ZeroDivisionError):
        await awaited(broken())
    assert not FAILURES


async def test_task_of_an_actor_ends_its_process(caplog: pytest.LogCaptureFixture) -> None:
    stopping = asyncio.Event()
    context = Context(
        ContextOptions(
            settings=Mock(),
            bus=Mock(),
            log=logging.getLogger("actor"),
            registry=CollectorRegistry(),
            beats=Mock(),
            stopping=stopping,
        )
    )
    context.spawn(broken(), "relist")
    await asyncio.wait_for(stopping.wait(), 15)
    assert isinstance(context.fault, ZeroDivisionError)
    assert "task relist failed: ZeroDivisionError: a bug" in caplog.text
    assert counted("relist") == 1


async def test_thread_raises_where_it_is_awaited() -> None:
    threads = Threads("test")
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0)
    assert await threads.run(lambda number: number + 1, 1) == 2
    threads.close()


async def test_call_that_hangs_has_one_thread_and_keeps_no_other_waiting() -> None:
    calls, free = HangingCalls("test", most=2), threading.Event()
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await calls.run("hung", free.wait, 0.01)
    assert await calls.run("good", lambda: 7, 60) == 7
    with pytest.raises(ZeroDivisionError):
        await calls.run("bad", lambda: 1 // 0, 60)
    with pytest.raises(TimeoutError):
        await calls.run("hung too", free.wait, 0.01)
    with pytest.raises(TooManyHung, match="2 calls do not return; is a file server away"):
        await calls.run("good", lambda: 7, 0.01)
    assert len([thread for thread in threading.enumerate() if thread.name == "test"]) == 2
    waiting = awaited(calls.run("hung", lambda: False, 60))
    await asyncio.sleep(0)
    free.set()
    assert await waiting is True
    assert await asyncio.gather(*(calls.run(f"{n}", lambda: 7, 60) for n in range(50))) == [7] * 50, (
        "all get their turn"
    )


def unowned(tree: ast.AST) -> list[str]:
    """Names by which code starts a task or an executor by itself."""
    names = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names += [alias.name for alias in node.names]
    return sorted({*names} & (UNOWNED | EXECUTORS))


def unawaited(tree: ast.AST) -> list[int]:
    """Lines that call `to_thread` without awaiting it or passing it on to what does."""
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    calls = [node for node in parents if isinstance(node, ast.Call)]
    calls = [node for node in calls if "to_thread" in (getattr(node.func, "attr", ""), getattr(node.func, "id", ""))]
    return [call.lineno for call in calls if not isinstance(parents[call], ast.Await | ast.Call)]


def test_lint_finds_what_has_no_owner() -> None:
    text = (
        "asyncio.create_task(a())\nloop.run_in_executor(None, b)\nfrom concurrent.futures import ThreadPoolExecutor\n"
    )
    assert unowned(ast.parse(text)) == ["ThreadPoolExecutor", "create_task", "run_in_executor"]
    assert unowned(ast.parse("from asyncio import ensure_future")) == ["ensure_future"]
    assert unawaited(ast.parse("async def f():\n  await to_thread(g)\n  x = asyncio.to_thread(g)")) == [3]


def test_every_task_has_an_owner() -> None:
    """Start tasks with Context.spawn, Tasks or awaited, and threads with Threads or HangingCalls."""
    found: dict[str, list[str]] = {}
    for path in product_modules():
        name, text = str(path.relative_to(ROOT)), path.read_text()
        if not any(word in text for word in UNOWNED | EXECUTORS | {"to_thread"}):
            continue  # parsing takes most of the time
        tree = ast.parse(text)
        names = [each for each in unowned(tree) if not (name in BLOCKING and each in EXECUTORS)]
        names += [f"to_thread in line {line}" for line in unawaited(tree)]
        if names and name != OWNER:
            found[name] = names
    assert found == {}
