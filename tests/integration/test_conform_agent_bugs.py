"""Each behaviour finds the agent with the bug that it is about, as a process; correct ones pass all that apply."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from supervisor.cli.operate.judging import environment
from supervisor.conform.agent.agent_stage import AgentStage
from supervisor.conform.program import CommandLauncher
from supervisor.conform.runner import run_all
from supervisor.conform.scripts import AGENT, behaviours
from supervisor.conform.verdict import FAIL, PASS, Result
from tests.support.plane import REPO

pytestmark = pytest.mark.heavy

SAMPLE = REPO / "tests" / "support" / "planted_agent.py"
BEHAVIOURS = {behaviour.name: behaviour for behaviour in behaviours(kind=AGENT)}
TIMEOUT_S, LONG_S, AT_ONCE = 5.0, 20.0, 8
OF_WATCHES = {"burst", "no-watch", "resumes", "stream-stays", "whole-picture"}
POLL, WATCH, EXPORTER = "poll", "watch", "calls_when_it_is_asked"

BUGS = {
    "never_calls": (POLL, "calls"),
    "polls_all_the_time": (POLL, "rate"),
    "has_no_deadline": (POLL, "deadlines"),
    "never_lists": (WATCH, "whole-picture"),
    "lists_before_it_watches": (WATCH, "whole-picture"),
    "watches_briefly": (WATCH, "stream-stays"),
    "reads_slowly": (WATCH, "burst"),
    "ignores_deleted": (WATCH, "shows-pods"),
    "takes_small_messages": (POLL, "large-list"),
    "ends_when_unavailable": (POLL, "unavailable"),
    "has_no_back_off": (WATCH, "unavailable"),
    "ends_when_exhausted": (POLL, "resource-exhausted"),
    "never_connects_again": (WATCH, "server-restarts"),
    "ends_without_kubelet": (POLL, "server-away"),
    "gives_up_without_kubelet": (POLL, "server-starts-later"),
    "lists_once": (WATCH, "resumes"),
    "needs_a_watch": (WATCH, "no-watch"),
    "ignores_sigterm": (POLL, "ends-at-sigterm"),
    "knows_pods_by_name": (WATCH, "namespaces"),
    "reads_the_first_container": (POLL, "all-containers"),
    "reads_the_first_device": (WATCH, "all-containers"),
    "expects_devices": (POLL, "kinds-of-pods"),
    "ignores_updates": (WATCH, "updated"),
    "adds_each_list": (WATCH, "shows-after-restart"),
    "lists_once_only": (POLL, "shows-pods"),
    "asks_for_each_pod": (POLL, "calls-per-pod"),
    "leaves_connections_open": (POLL, "connections"),
    "spins_without_kubelet": (POLL, "waits-idle"),
    "knows_devices_by_their_ids": (POLL, "same-ids"),
    "ignores_an_empty_list": (POLL, "shows-pods"),
    "expects_pods": (POLL, "kinds-of-pods"),
    "ends_at_a_deadline": (POLL, "server-hangs"),
}
"""How the agent learns, and the behaviour that finds the bug."""


@pytest.fixture(scope="module")
def verdicts() -> dict[str, list[Result]]:
    """The results by bug, and of correct agents by the way; several programs run at a time, since most of them wait."""
    return asyncio.run(judged_all())


async def judged_all() -> dict[str, list[Result]]:
    turn = asyncio.Semaphore(AT_ONCE)

    async def judge(bug: str, way: str, names: Sequence[str], timeout: float) -> list[Result]:
        async with turn:
            return await judged(bug, way, names, timeout)

    jobs = {way: judge("none", way, list(BEHAVIOURS), LONG_S) for way in (POLL, WATCH)}
    jobs[EXPORTER] = judge(EXPORTER, POLL, list(BEHAVIOURS), LONG_S)
    jobs |= {bug: judge(bug, way, [name], TIMEOUT_S) for bug, (way, name) in BUGS.items()}
    return dict(zip(jobs, await asyncio.gather(*jobs.values()), strict=True))


async def judged(bug: str, way: str, names: Sequence[str], timeout: float) -> list[Result]:
    command = (sys.executable, str(SAMPLE), bug, way)
    with TemporaryDirectory(dir="/tmp") as kubelet, TemporaryDirectory() as own:  # paths of sockets are short
        mine = {"NODEPLANE_POD_RESOURCES": f"{kubelet}/pod-resources/kubelet.sock"}
        variables = {**environment(Path(kubelet), mine), "PYTHONPATH": str(REPO)}
        stage = AgentStage(Path(kubelet), CommandLauncher(command, variables, Path(own) / "output"), timeout)
        stage.shows_with = f"touch {kubelet}/asked; cat {kubelet}/shown"
        return [result async for result in run_all(stage, [BEHAVIOURS[name] for name in names])]


@pytest.mark.parametrize("bug", BUGS)
def test_bug_is_found(verdicts: dict[str, list[Result]], bug: str) -> None:
    [result] = verdicts[bug]
    assert result.verdict == FAIL, result
    assert result.reason
    assert result.advice


def test_each_behaviour_has_a_bug_that_it_finds() -> None:
    assert {name for _, name in BUGS.values()} == BEHAVIOURS.keys()


@pytest.mark.parametrize(("way", "left_out"), [(POLL, OF_WATCHES), (WATCH, {"connections"}), (EXPORTER, OF_WATCHES)])
def test_correct_agent_has_no_finding(verdicts: dict[str, list[Result]], way: str, left_out: set[str]) -> None:
    results = verdicts[way]
    assert {result.name: result.reason for result in results if result.verdict == FAIL} == {}
    assert {result.name for result in results if result.verdict != PASS} == left_out


async def test_agent_that_calls_seldom_is_told_what_to_give() -> None:
    [result] = await judged("lists_once_only", POLL, ["server-restarts"], 1.0)
    assert (result.verdict, result.reason.endswith("give a longer --timeout")) == (FAIL, True), result.reason
