"""Reading the spans of several processes over the bus."""

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from protocols.bus import Bus, BusOptions
from protocols.bus.bus import NameLock
from protocols.messages.trace import Span
from protocols.process.layout import layout
from protocols.trace import Collector, SpanRecorder, collector, instances, run_dirs, serve_spans

POD = "0b9d8e5e-3f6f-4c7e-9a66-9c7b4a1c2d3e"


class Machine:
    """Processes of a run directory, all in this one."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.buses: list[Bus] = []

    async def process(self, name: str, recorder: SpanRecorder | None = None) -> Bus:
        bus = Bus(BusOptions(name=name, run_dir=self.run))
        await bus.start()
        self.buses.append(bus)
        if recorder is not None:
            serve_spans(bus, recorder)
        return bus


@pytest.fixture
async def machine() -> AsyncIterator[Machine]:
    with tempfile.TemporaryDirectory(prefix="np", dir="/tmp") as root:
        machine = Machine(Path(root) / "run")
        yield machine
        for bus in machine.buses:
            await bus.close()


def recorder(*spans: Span, retained: int = 100, batch: int = 100) -> SpanRecorder:
    made = SpanRecorder(retained, batch)
    for span in spans:
        made.add(span)
    return made


def made(pod: str, name: str, start: int) -> Span:
    return Span(pod, name, start, 1, {}, "", start)


async def test_pod_has_the_spans_of_all_processes_under_their_names(machine: Machine) -> None:
    await machine.process("devices", recorder(made(POD, "admit", 1), made("other", "admit", 2)))
    await machine.process("pleg", recorder(Span(POD, "runtime event", 3, 1, {}, "cri", 3)))
    await machine.process("supervisor")
    client = await machine.process("")
    found = await Collector(client, "n1-2/").pod(POD)
    assert {(span.actor, span.name) for span in found.spans} == {
        ("n1-2/devices", "admit"),
        ("n1-2/cri", "runtime event"),
    }
    assert found.silent == ()


async def test_news_are_read_once_and_those_that_were_dropped_are_counted(machine: Machine) -> None:
    ring = recorder(retained=4, batch=3)
    await machine.process("devices", ring)
    reader = Collector(await machine.process(""))
    for number in range(4):
        ring.add(made(POD, "a", number))
    first = await reader.news()
    assert ([span.start_ns for span in first.spans], first.more) == ([0, 1, 2], ("devices",))
    assert [span.start_ns for span in (await reader.news(first.more)).spans] == [3]
    for number in range(4, 10):
        ring.add(made(POD, "a", number))
    later = await reader.news()
    assert ([span.start_ns for span in later.spans], later.missed) == ([6, 7, 8], 2)
    assert await reader.recorded() == {"devices": 10}


async def test_position_that_is_dropped_is_of_a_process_that_no_longer_answers(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "MOST_INSTANCES", 2)
    await machine.process("devices", recorder(made(POD, "admit", 1)))
    reader = Collector(await machine.process(""))
    seen = [span.name for span in (await reader.news()).spans]
    for name in ("cel-1", "cel-2", "cel-3"):
        worker = await machine.process(name, recorder(made(POD, name, 2)))
        seen += [span.name for span in (await reader.news()).spans]
        await worker.close()
    seen += [span.name for span in (await reader.news()).spans]
    assert seen == ["admit", "cel-1", "cel-2", "cel-3"]


async def test_instances_are_names_that_a_process_holds(machine: Machine) -> None:
    devices = await machine.process("devices")
    await machine.process("pleg")
    (machine.run / "gone.rpc").touch()
    (machine.run / "gone.lock").touch()
    assert instances(machine.run) == ["devices", "pleg"]
    await devices.close()
    assert instances(machine.run) == ["pleg"]


async def test_process_that_does_not_answer_is_named(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "TIMEOUT_S", 0.2)
    await machine.process("devices", recorder(made(POD, "admit", 1)))
    stopped = NameLock(machine.run, "health")
    stopped.take()
    (machine.run / "health.rpc").touch()
    found = await Collector(await machine.process("")).pod(POD)
    assert ([span.name for span in found.spans], found.silent) == (["admit"], ("health",))
    stopped.release()


def test_run_dirs_have_those_of_further_nodes(tmp_path: Path) -> None:
    where = layout(str(tmp_path))
    (where.node("n1-2").run).mkdir(parents=True)
    assert run_dirs(where) == [(where.run, ""), (where.node("n1-2").run, "n1-2/")]
