"""What runs the simulation: processes with deadlines, arguments, shrinking of faults, retained seeds, timelines."""

import os
import signal
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulation import profiles
from tests.simulation.model import Broken, Fault, Happening, Outcome, RunOptions
from tests.simulation.run import failure
from tests.simulation.run.__main__ import KEYS, main, plan, simulate
from tests.simulation.run.arguments import Arguments, BadArgument, arguments
from tests.simulation.run.processes import Deadline, Ended, forked
from tests.simulation.run.retained import RETAINED, BadLine, read
from tests.simulation.run.seeds import HUNG, Result, results
from tests.simulation.run.shrink import shrunk
from tests.simulation.run.timeline import picture, text

EVENTS = (
    Happening(1.0, "store", "started"),
    Happening(2.5, "store", "ended by signal 9"),
    Happening(9.0, "late", "x"),
)


def outcome(options: RunOptions, faults: Sequence[Fault] = (), broken: Sequence[Broken] = ()) -> Outcome:
    return Outcome(
        profile=options.profile, seed=options.seed, virtual_s=options.seconds + 30, real_s=0.5, turns=1, messages=2,
        faults=list(faults), broken=list(broken), trace=f"trace of {options.seed}", limits={}, counts={},
        events=list(EVENTS),
    )  # fmt: skip


ENOUGH = Deadline(cpu=30, wall=60)
PLANNED = tuple(Fault(at, "kill" if at % 2 else "pause", "store", float(at)) for at in range(1, 13))


def fragile(options: RunOptions) -> Outcome:
    """Break seed 3 where the faults at 4 and 9 are both in the plan; end badly with seeds 5 and 6."""
    if options.seed == 5:
        os.kill(os.getpid(), signal.SIGSEGV)
    if options.seed == 6:
        raise ValueError("no such thing")
    faults = PLANNED if options.faults is None else options.faults
    wrong = options.seed == 3 and {4, 9} <= {fault.at for fault in faults}
    return outcome(options, faults, [Broken("durable", "a write is lost", 9.5)] if wrong else [])


def options(seed: int) -> RunOptions:
    return RunOptions(profile="control", seed=seed, seconds=10)


def given_arguments(**changes: object) -> Arguments:
    return msgspec.structs.replace(arguments(["SEED=1"], ["control"], KEYS), **changes)


def test_forked_runs_each_job_in_a_process_and_yields_its_answer() -> None:
    found = dict(forked(range(5), lambda job: b"%d %d" % (job, os.getpid()), at_a_time=2, deadline=ENOUGH))
    answers = {job: ended.answer.split() for job, ended in found.items()}
    assert {job: int(words[0]) for job, words in answers.items()} == {job: job for job in range(5)}
    pids = {int(words[1]) for words in answers.values()}
    assert len(pids) == 5
    assert os.getpid() not in pids


def test_forked_large_answer_arrives_whole() -> None:
    [(_, ended)] = forked([0], lambda _: b"x" * 3_000_000, at_a_time=1, deadline=ENOUGH)
    assert len(ended.answer) == 3_000_000


def test_forked_exception_shows_its_stack() -> None:
    def work(job: int) -> bytes:
        raise ValueError(f"job {job} is bad")

    [(_, ended)] = forked([7], work, at_a_time=1, deadline=ENOUGH)
    assert not ended.answer
    assert "ValueError: job 7 is bad" in ended.fault


def hang(busy: bool) -> bytes:
    while True:
        if not busy:
            time.sleep(0.01)


@pytest.mark.parametrize(("busy", "deadline"), [(False, Deadline(30, 0.3)), (True, Deadline(1, 60))])
def test_forked_hung_job_ends_at_its_deadline_with_its_stack(busy: bool, deadline: Deadline) -> None:
    [(_, ended)] = forked([busy], hang, at_a_time=1, deadline=deadline)
    assert ended.fault.startswith("does not end: its time is over")
    assert "in hang" in ended.fault


def test_forked_job_may_fork_jobs_of_its_own() -> None:
    def outer(job: int) -> bytes:
        return b" ".join(ended.answer for _, ended in forked([1, 2], lambda inner: b"%d%d" % (job, inner), at_a_time=1,
                                                             deadline=ENOUGH))  # fmt: skip

    assert {ended.answer for _, ended in forked([3, 4], outer, at_a_time=2, deadline=ENOUGH)} == {b"31 32", b"41 42"}


def test_forked_job_killed_by_a_signal_names_it() -> None:
    def work(job: int) -> bytes:
        os.kill(os.getpid(), signal.SIGKILL)
        return b""

    [(_, ended)] = forked([0], work, at_a_time=1, deadline=ENOUGH)
    assert ended == Ended(fault="ended by SIGKILL")


def test_forked_closed_early_kills_what_runs(tmp_path: Path) -> None:
    def work(job: int) -> bytes:
        (tmp_path / str(job)).write_text(str(os.getpid()))
        if job:
            time.sleep(60)
        return b""

    running = forked(count(), work, at_a_time=2, deadline=ENOUGH)
    assert next(running)[0] == 0
    running.close()
    for pid in filter(None, (path.read_text() for path in tmp_path.iterdir())):  # one may end before it writes
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)
    assert len(list(tmp_path.iterdir())) <= 3  # taken only when one may start


def test_results_of_processes_that_end_badly_break_a_promise() -> None:
    found = {
        result.options.seed: result for result in results(map(options, (3, 4, 5, 6)), fragile, jobs=2, deadline=ENOUGH)
    }
    assert [each.promise for each in found[3].broken] == ["durable"]
    assert found[4].broken == ()
    assert found[5].broken[0].promise == found[6].broken[0].promise == HUNG
    assert "SIGSEGV" in found[5].broken[0].text
    assert "no such thing" in found[6].broken[0].text


def test_results_remove_what_killed_runs_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.simulation.run.seeds.DIRECTORIES", [str(tmp_path)])
    dead, alive, other = (
        tmp_path / name for name in ("simulation-9999999-x", f"simulation-{os.getpid():07d}-y", "else")
    )
    for path in (dead, alive, other):
        (path / "store").mkdir(parents=True)
    list(results([options(4)], fragile, jobs=1, deadline=ENOUGH))
    assert sorted(tmp_path.iterdir()) == sorted([alive, other])


@given(st.lists(st.integers(0, 9), max_size=12), st.sets(st.integers(0, 9), max_size=4))
def test_shrunk_finds_the_faults_that_matter(items: list[int], needed: set[int]) -> None:
    def breaks(some: Sequence[int]) -> bool:
        return needed <= set(some)

    if breaks(items):
        found = shrunk(items, breaks, lambda: True)
        assert sorted(found) == sorted(needed)
        assert found == [item for at, item in enumerate(items) if item in needed and _chosen(items, found, at)]


def _chosen(items: list[int], found: list[int], at: int) -> bool:
    """Of equal items exactly one is left; any one of them may be."""
    return items[at] in found and items.index(items[at]) == at


@given(st.integers(0, 2**32), st.integers(0, 14))
def test_shrunk_of_any_condition_breaks_and_no_item_can_be_left_out(salt: int, size: int) -> None:
    asked: list[tuple[int, ...]] = []

    def breaks(some: Sequence[int]) -> bool:
        asked.append(tuple(some))
        return len(some) == size or hash((salt, tuple(some))) % 3 == 0

    found = shrunk(range(size), breaks, lambda: True)
    assert found == sorted(set(found))
    assert breaks(found)
    assert not any(breaks([item for item in found if item != left_out]) for left_out in found)
    assert len(set(asked[: -len(found) - 1])) == len(asked[: -len(found) - 1])


@given(st.integers(0, 20))
def test_shrunk_ended_early_still_breaks(runs: int) -> None:
    left = iter(range(runs))
    found = shrunk(range(30), lambda some: {3, 17} <= set(some), lambda: next(left, None) is not None)
    assert {3, 17} <= set(found)


def test_shrink_keeps_the_faults_that_break_and_their_run() -> None:
    [result] = results([options(3)], fragile, jobs=1, deadline=ENOUGH)
    found = failure.shrink(result, fragile)
    assert found is not None
    assert [fault.at for fault in found.faults] == [4, 9]
    assert found.outcome is not None
    assert found.outcome.faults == found.faults


def test_shrink_of_a_hung_run_is_not_tried() -> None:
    [result] = results([options(5)], fragile, jobs=1, deadline=ENOUGH)
    assert failure.shrink(result, fragile) is None


def test_report_names_seed_commit_promise_faults_and_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure, "DRAWN", tmp_path)
    [result] = results([options(3)], fragile, jobs=1, deadline=ENOUGH)
    lines = "\n".join(failure.report(result, failure.shrink(result, fragile), "abc123"))
    assert "FAILED control seed 3 (10 virtual seconds, commit abc123)" in lines
    assert "durable at 9.500 s: a write is lost" in lines
    assert "2 of 12 faults still break it" in lines
    assert "9.000 s  kill store 9" in lines
    assert "replay: make simulate PROFILE=control SEED=3 SECONDS=10" in lines
    assert "retain: control 3 10 durable: a write is lost" in lines
    kept = msgspec.json.decode((tmp_path / "control-3.json").read_bytes(), type=list[Fault])
    assert [fault.at for fault in kept] == [4, 9]
    ElementTree.parse(tmp_path / "control-3.svg")


def test_timeline_marks_processes_over_time() -> None:
    drawn = text(outcome(options(3), PLANNED, [Broken("durable", "lost", 39.9)]))
    [lane] = [line for line in drawn.splitlines() if line.startswith("store")]
    assert "✕" in lane
    assert "‖" in lane
    [broken] = [line for line in drawn.splitlines() if line.startswith("broken ")]
    assert broken.endswith("▲")
    assert "ended by signal 9" in drawn


def test_timeline_picture_loads_nothing_and_escapes_texts() -> None:
    hostile = outcome(options(1))
    hostile.events.append(Happening(3.0, "<script>", "a\x1b[2Jb & <c>"))
    svg = picture(hostile)
    ElementTree.fromstring(svg)
    assert "http" not in svg.replace('xmlns="http://www.w3.org/2000/svg"', "").replace("https://www.textualize.io", "")
    assert "\x1b" not in svg


def test_simulate_fails_with_a_broken_promise_and_ends_with_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(failure, "DRAWN", tmp_path)
    assert simulate(given_arguments(seeds=4, seconds=10.0), fragile) == 1
    last = msgspec.json.decode(capfd.readouterr().out.splitlines()[-1])
    assert last.pop("trace")
    assert last.pop("times_real") > 0
    assert last == {"seeds": 4, "virtual_s": 160, "faults": 48, "failures": 1}


def test_simulate_same_seeds_give_the_same_hash(capfd: pytest.CaptureFixture[str]) -> None:
    assert simulate(given_arguments(seed=10, seeds=5, jobs=1), fragile) == 0
    assert simulate(given_arguments(seed=10, seeds=5, jobs=3), fragile) == 0
    assert simulate(given_arguments(seed=11, seeds=5), fragile) == 0
    first, second, other = (msgspec.json.decode(line)["trace"] for line in capfd.readouterr().out.splitlines())
    assert first == second != other


def test_plan_begins_with_retained_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tests.simulation.run.retained.RETAINED", _file("control 9 60 lost at a kill\nnode 8 5 twice\n")
    )
    found = list(plan(arguments(["SEEDS=2", "PROFILE=control"], ["control", "node"], KEYS), end=0))
    assert [each.seed for each in found][:1] == [9]
    assert len(found) == 3
    assert list(plan(arguments(["SEED=4"], ["control"], KEYS), end=0)) == [
        RunOptions(profile="control", seed=4, seconds=60)
    ]


def test_plan_without_seeds_ends_with_the_budget() -> None:
    assert list(plan(arguments([], ["none"], KEYS), end=time.monotonic() - 1)) == []


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["SEDE=7"], "unknown argument 'SEDE=7': use BUDGET=..., JOBS=..."),
        (["7"], "unknown argument '7'"),
        (["SEED=x"], "SEED=x is no whole number from 0"),
        (["SEED=-1"], "SEED=-1 is no whole number from 0"),
        (["SEED=" + "9" * 5000], "is no whole number"),
        (["SEEDS=0"], "SEEDS=0 is no whole number from 1"),
        (["SECONDS=0"], "SECONDS=0 is no number of seconds above 0"),
        (["SECONDS=nan"], "SECONDS=nan is no number of seconds"),
        (["PROFILE=moon"], "unknown PROFILE=moon: use one of control, node"),
        (["TRACE=yes"], "TRACE=yes is none of 0, 1"),
        (["JOBS=1000"], "JOBS=1000 is no whole number from 1 to 64"),
    ],
)
def test_arguments_that_are_wrong_are_named(words: list[str], error: str) -> None:
    with pytest.raises(BadArgument) as raised:
        arguments(words, ("control", "node"), KEYS)
    assert error in str(raised.value)
    assert "\n" not in str(raised.value)


def test_arguments_empty_values_count_as_absent() -> None:
    found = arguments(["SEED=", "SEEDS=", "PROFILE=", "TRACE=", "SECONDS="], ("control", "node"), KEYS)
    assert found.retained
    assert found.seeds is None
    assert found.profiles == ("control", "node")
    assert found.seconds == 60


def test_main_with_a_wrong_argument_ends_with_2(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["PROFILE=moon"]) == 2
    assert capfd.readouterr().err.startswith("simulate: unknown PROFILE=moon: use one of ")


def test_main_without_a_fixed_hash_seed_ends_with_2(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    assert main(["SEED=1"]) == 2
    assert "set PYTHONHASHSEED=0" in capfd.readouterr().err


def test_retained_seeds_can_be_read() -> None:
    for each in read(RETAINED.read_text().splitlines()):
        assert each.profile in profiles.PLACES
        assert len(each.what.split()) > 2, "say what it was"


@pytest.mark.parametrize("line", ["control", "control x 60 what", "control 7 60", "control 7 soon what"])
def test_retained_line_that_cannot_be_read_is_named(line: str) -> None:
    with pytest.raises(BadLine, match=r"retained.txt:2: write PROFILE SEED SECONDS WHAT IT WAS"):
        read(["# head", line])


def test_promises_of_a_result_are_a_set() -> None:
    twice = (Broken("durable", "a"), Broken("durable", "b"), Broken("watch", "c"))
    assert Result(options(1), twice, None).promises == {"durable", "watch"}


class _file:
    """Stand in for the path of the retained seeds."""

    name = "retained.txt"

    def __init__(self, text: str) -> None:
        self._text = text

    def read_text(self) -> str:
        return self._text
