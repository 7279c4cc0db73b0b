"""Limits and load of the simulated node, and the model of its API."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from protocols.kinds.table import PODS
from protocols.kube.meta import meta
from tests.simulation.node.api import ModelApi, Watch
from tests.simulation.node.clock_steps import ClockSteps
from tests.simulation.node.limits import draw_machine
from tests.simulation.node.load import YOUNG_S, Load
from tests.simulation.node.removals import Removals
from tests.simulation.world.process import Clock
from tests.simulation.world.world import World

SEEDS = 40


def test_runtime_is_slow_in_some_seeds_and_prompt_with_real_limits(tmp_path: Path) -> None:
    drawn: dict[bool, set[float]] = {True: set(), False: set()}
    for seed in range(SEEDS):
        world = World(seed, tmp_path)
        draw_machine(world)
        drawn[world.real_limits].add(world.slow_threads["runtime"])
    assert drawn == {True: {0.0}, False: {2.0, 1.0, 0.0}}


def test_late_watch_gets_events_in_order_and_none_before_its_time(tmp_path: Path) -> None:
    world = World(1, tmp_path)
    api = ModelApi(world)
    api.watches_slow_s = 2.0
    nobody: Any = None
    watch = Watch(api, nobody, PODS, 0)
    api.watches[watch] = None
    arrived = []
    for number in range(20):
        api.put(PODS, {"metadata": {"name": f"pod-{number}", "namespace": "default"}})
        arrived.append(watch._due)
    assert watch.until == 0
    assert arrived == sorted(arrived)
    assert 0.5 < arrived[-1] - world.now < 2.2


def test_some_pods_are_deleted_while_they_start(tmp_path: Path) -> None:
    world = World(1, tmp_path)
    api = ModelApi(world)
    load = Load(world, api, {}, [])
    load._most, load._deleted, load.young = 100, 0.0, 0.4
    load.begin()
    load.end_in(10.0)
    world.run(10.0 + YOUNG_S)
    deleted = [meta(pod)["name"] for pod in api.objects["pods"].values() if "deletionTimestamp" in meta(pod)]
    assert load.made > 10
    assert 0.1 < len(deleted) / load.made < 0.8


def test_clock_steps_forth_and_back_until_they_end(tmp_path: Path) -> None:
    worlds = (World(seed, tmp_path) for seed in range(SEEDS))
    made = ((world, clock := Clock(world.random("clock")), ClockSteps(world, clock)) for world in worlds)
    world, clock, steps = next(each for each in made if each[2]._most)
    first, seen = clock.wall, set[float]()
    steps.begin()
    for _ in range(200):
        world.run(0.1)
        seen.add(round(clock.wall - first, 9))
    assert len(seen) > 3
    assert 0.0 in seen
    assert 0.0 <= min(seen) <= max(seen) <= 2.0
    steps.end()
    world.run(10.0)
    ended = clock.wall
    world.run(10.0)
    assert clock.wall == ended


def test_sandbox_that_went_is_back_and_the_next_one_is_not() -> None:
    """pleg hears that the first one is gone after the second one has come, and shows that when it has gone as well."""
    broken: list[str] = []
    removals = Removals.__new__(Removals)
    clock = SimpleNamespace(wall=0.0, stopped_at=None)
    removals._world = SimpleNamespace(current=SimpleNamespace(clock=clock))  # type: ignore[assignment]
    removals._witness = SimpleNamespace(break_promise=lambda promise, text: broken.append(text))  # type: ignore[assignment]
    removals._clock_ahead, removals.stamps_true = None, True
    removals._sandboxes, removals._shown, removals._gone = set(), {}, set()

    def publish(*ids: str) -> None:
        status = SimpleNamespace(sandboxes=[SimpleNamespace(id=id) for id in ids]) if ids else None
        removals._published(SimpleNamespace(uid="u", status=status))  # type: ignore[arg-type]

    publish("first")
    publish()
    publish("second")
    assert broken == []
    publish("first", "second")
    assert broken == ["u is back in pleg's statuses"]
