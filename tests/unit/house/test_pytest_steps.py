"""Which kills the mark `kill_at_every_step` makes, and what is retained of them."""

import os
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from protocols.messages.trace import Step
from pytest_nodeplane.outage import Outage
from pytest_nodeplane.processes import Process
from pytest_nodeplane.steps import DEFAULT, Found, Kill, Program, Progress, choose, kills_of, read

FOUND = [
    Found("devices", Step("Register", "example.com/gpu", 1)),
    Found("scheduler", Step("schedule", "", 2)),
    Found("devices", Step("Allocate", "example.com/gpu", 1)),
]
PROGRAMS, ACTORS = [Program(0, "my-plugin")], {"": ("devices", "scheduler")}
KILLS = kills_of(FOUND, PROGRAMS, DEFAULT, ACTORS)


def test_each_step_kills_the_program_and_its_own_actor_by_default() -> None:
    assert [kill.text for kill in KILLS] == [
        "step 1 of 3: SIGKILL of my-plugin at Register example.com/gpu",
        "step 1 of 3: SIGKILL of devices at Register example.com/gpu",
        "step 2 of 3: SIGKILL of my-plugin at schedule (2)",
        "step 2 of 3: SIGKILL of scheduler at schedule (2)",
        "step 3 of 3: SIGKILL of my-plugin at Allocate example.com/gpu",
        "step 3 of 3: SIGKILL of devices at Allocate example.com/gpu",
    ]


def test_named_actor_is_killed_once_at_each_step() -> None:
    kills = kills_of(FOUND, PROGRAMS, ["actor", "devices"], ACTORS)
    assert [(kill.number, kill.victim) for kill in kills] == [
        (1, "devices"),
        (2, "scheduler"),
        (2, "devices"),
        (3, "devices"),
    ]


def test_kills_of_several_nodes_name_the_node_of_the_victim_and_of_the_step() -> None:
    found = [msgspec.structs.replace(FOUND[1], node="n"), msgspec.structs.replace(FOUND[2], node="n-2")]
    programs = [Program(0, "my-plugin", "n"), Program(0, "my-plugin", "n-2")]
    actors = {"n": ("devices", "scheduler"), "n-2": ("devices",)}
    kills = kills_of(found, programs, ["program", "devices", "scheduler"], actors)
    assert [kill.text.removeprefix("step 2 of 2: SIGKILL of ") for kill in kills if kill.number == 2] == [
        "my-plugin on n at Allocate example.com/gpu on n-2",
        "my-plugin on n-2 at Allocate example.com/gpu",
        "devices on n-2 at Allocate example.com/gpu",
        "scheduler on n at Allocate example.com/gpu on n-2",
    ]
    assert kills[2].text == "step 1 of 2: SIGKILL of devices on n at schedule (2)"
    kept = Progress("o", tuple(kills), tuple(kills))
    assert read(msgspec.to_builtins(kept), "o") == kept


def test_limit_takes_calls_first_and_the_seed_chooses_the_same_again() -> None:
    chosen = choose(KILLS, 5, "7")
    assert chosen == choose(KILLS, 5, "7")
    assert len(chosen) == 5
    assert [kill for kill in chosen if kill.at.is_call] == [kill for kill in KILLS if kill.at.is_call]
    assert choose(KILLS, 30, "7") == KILLS
    assert len({tuple(kill.text for kill in choose(KILLS, 3, str(seed))) for seed in range(20)}) > 1


def progress(**kept: object) -> Progress:
    return msgspec.structs.replace(Progress("o", tuple(KILLS), tuple(KILLS)), **kept)


def numbers(kills: list[Kill]) -> list[int]:
    return [KILLS.index(kill) for kill in kills]


def test_interrupted_run_continues_with_what_has_not_passed() -> None:
    kept = progress()
    kept.note(KILLS[0], passed=True)
    kept.note(KILLS[1], passed=False)
    again = read(msgspec.to_builtins(kept), "o")
    assert numbers(again.left(last_failed=False)) == [1, 2, 3, 4, 5]
    again.note(KILLS[1], passed=True)
    assert again.failed == []


def test_complete_run_begins_anew_or_repeats_what_failed() -> None:
    kept = progress(failed=[KILLS[3].text], complete=True)
    assert kept.left(last_failed=False) == []
    assert numbers(kept.left(last_failed=True)) == [3]


@pytest.mark.parametrize("value", [None, {"kills": 3}, msgspec.to_builtins(progress())])
def test_progress_of_other_options_or_versions_is_left(value: object) -> None:
    assert read(value, "other") == Progress("other")


def test_call_that_fails_in_an_outage_is_made_again_when_it_is_over() -> None:
    outage, failing, over = Outage(), threading.Event(), threading.Event()
    calls = []

    def call() -> str:
        calls.append(1)
        if len(calls) == 1:
            failing.set()
            over.wait(5)
            raise ConnectionRefusedError
        return "answer"

    def kill() -> None:
        failing.wait(5)
        with outage:
            over.set()

    thread = threading.Thread(target=kill)
    thread.start()
    assert outage.ride(call) == "answer"
    thread.join()
    with pytest.raises(ConnectionResetError):
        outage.ride(lambda: (_ for _ in ()).throw(ConnectionResetError()))


def test_crashed_program_runs_again_in_the_same_place(tmp_path: Path) -> None:
    code = "import time; print('begins', flush=True); time.sleep(60)"
    process = Process([sys.executable, "-c", code], os.environ, tmp_path)
    first, seen = process.pid, []
    try:
        process.crash(lambda: seen.append(Path(f"/proc/{first}").exists()))
        assert seen == [False], "it was not dead when the step went on"
        assert process.runs
        assert process.pid != first
        assert [path.name for path in tmp_path.iterdir()] == [str(process.pid)]
    finally:
        process.close()
