"""The shell around every actor: beats, promises, metrics, signals, exit codes, one-line errors."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from protocols.bus import Bus, BusOptions, Call
from protocols.messages.supervisor import HEARTBEAT, METRICS, Empty, Heartbeat, MetricsText
from protocols.process.settings import save_settings
from tests.support.settings import plane_settings
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("terminal_signals")


class Stage:
    """A root directory with settings, and toy actors that run on it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.run_dir = root / "run"
        self.run_dir.mkdir(mode=0o700)
        self.settings = self.run_dir / "settings.json"
        self._processes: list[subprocess.Popen[str]] = []
        save_settings(self.settings, plane_settings(root))

    def start(self, fault: str = "", *arguments: str) -> "subprocess.Popen[str]":
        told = arguments or ("--settings", str(self.settings))
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "tests.support.toy_actor", *told],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TOY": fault},
        )
        self._processes.append(process)
        return process

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
            if process.stderr:
                process.stderr.close()


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A root for actors that run as processes."""
    root = Path(tempfile.mkdtemp(prefix="np", dir="/tmp"))
    made = Stage(root)
    yield made
    made.end()
    shutil.rmtree(root)


def finish(process: "subprocess.Popen[str]") -> tuple[int, list[str]]:
    """Exit code and what it said."""
    _, said = process.communicate(timeout=60)
    return process.returncode, said.splitlines()


class Supervisor:
    """Hears beats."""

    def __init__(self, run_dir: Path) -> None:
        self.bus = Bus(BusOptions(name="supervisor", run_dir=run_dir))
        self.beats: list[Heartbeat] = []
        self._news = asyncio.Condition()

    async def start(self) -> None:
        await self.bus.start()
        self.bus.serve(HEARTBEAT, Heartbeat, self._on_beat)

    async def _on_beat(self, beat: Heartbeat, call: Call) -> None:
        async with self._news:
            self.beats.append(beat)
            self._news.notify_all()

    async def beat(self, wanted: Callable[[Heartbeat], bool], within: float = 60.0) -> Heartbeat:
        async with asyncio.timeout(within), self._news:
            await self._news.wait_for(lambda: any(wanted(beat) for beat in self.beats))
        return next(beat for beat in self.beats if wanted(beat))


async def test_an_actor_says_how_it_is_and_stops_orderly(stage: Stage) -> None:
    supervisor = Supervisor(stage.run_dir)
    await supervisor.start()
    process = stage.start()
    beat = await supervisor.beat(lambda beat: beat.state == "ready")
    assert (beat.instance, beat.pid, beat.note) == ("toy", process.pid, "plays")
    assert [stream.stream for stream in beat.owns] == ["toys"]
    text = (await supervisor.bus.call("toy", METRICS, Empty(), MetricsText)).text
    assert '# TYPE toy_count counter\ntoy_count{kind="all"} 1' in text
    assert "process_cpu_seconds_total" in text
    process.send_signal(signal.SIGTERM)
    await supervisor.beat(lambda beat: beat.state == "stopping")
    code, said = await asyncio.to_thread(finish, process)
    assert code == 0
    assert [line for line in said if "stopped orderly" in line]
    assert sorted(os.listdir(stage.run_dir)) == [
        "settings.json", "supervisor.lock", "supervisor.pub", "supervisor.rpc", "toy.lock",
    ]  # fmt: skip
    await supervisor.bus.close()


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ("start", "start failed: ValueError: cannot start"),
        ("task", "task breaker failed: ValueError: broken"),
        ("memory", "memory failed: MemoryError"),
    ],
)
def test_a_fault_ends_the_process_with_one_line(stage: Stage, fault: str, line: str) -> None:
    code, said = finish(stage.start(fault))
    assert code == 1
    assert len(said) == 1
    assert line in said[0]


def await_lock(stage: Stage) -> None:
    """From its first sign on the bus on, signals are obeyed."""
    until("its address on the bus", (stage.run_dir / "toy.rpc").exists, every=0.01)


def test_a_callback_that_fails_is_one_line_and_no_more(stage: Stage) -> None:
    process = stage.start("callback")
    assert process.stderr is not None
    assert "Exception in callback" in (line := process.stderr.readline()), line
    assert "ValueError: x" in line
    assert process.poll() is None


def test_a_stop_that_fails_is_a_failure(stage: Stage) -> None:
    process = stage.start("stop")
    await_lock(stage)
    process.send_signal(signal.SIGINT)
    code, said = finish(process)
    assert (code, len(said)) == (1, 1)
    assert "stop failed: ValueError: cannot stop" in said[0]


def test_a_signal_during_start_is_obeyed(stage: Stage) -> None:
    process = stage.start("slow")
    await_lock(stage)
    process.send_signal(signal.SIGTERM)
    assert finish(process)[0] == 0


def test_abort_shows_every_stack(stage: Stage) -> None:
    process = stage.start()
    await_lock(stage)
    process.send_signal(signal.SIGABRT)
    code, said = finish(process)
    assert code == -signal.SIGABRT
    assert any("most recent call first" in line for line in said)


def test_usage_errors_exit_with_2(stage: Stage) -> None:
    assert finish(stage.start("", "--nonsense"))[0] == 2
    code, said = finish(stage.start("", "--settings", "/nowhere/settings.json"))
    assert (code, len(said)) == (2, 1)
    assert "cannot read settings" in said[0]


def test_a_second_instance_of_a_name_ends_with_one_line(stage: Stage) -> None:
    first = stage.start()
    await_lock(stage)
    code, said = finish(stage.start())
    assert (code, len(said)) == (1, 1)
    assert f"toy is running already as pid {first.pid}" in said[0]
