"""Each recipe fails for a plugin, driver or agent with the bug that it is meant to find, at the line that checks it."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import faulty
import pytest
from test_recipe_agent import test_agent_watches_instead_of_polling_and_resumes as agent_resumes
from test_recipe_driver import test_preparing_a_claim_again_changes_nothing as prepares_again
from test_recipe_plugin import test_no_device_is_given_out_twice_while_workload_and_plugin_roll as rolls
from test_recipe_plugin import test_plugin_registers_again_after_kubelet_restarts as registers_again
from test_recipe_plugin import test_plugin_survives_a_broken_device as survives

from pytest_nodeplane import Node, waiting
from pytest_nodeplane.processes import Process

PATIENCE_S = 10.0
"""Time for what a recipe waits for; the bug keeps it from happening."""


class Case(NamedTuple):
    recipe: Callable[..., None]
    bug: Callable[[], None]
    line: str
    """Text of the recipe's line that fails."""
    says: str
    """Pattern of the error's first line."""


CASES = [
    Case(
        registers_again,
        faulty.registers_once,
        "wait_devices(GPU, 2)",
        r"2 healthy devices .*: not in 10 s\. There .* Unknown .*: did not come back: .*, no Register since",
    ),
    Case(
        registers_again,
        faulty.ends_with_the_kubelet,
        "wait_devices(GPU, 2)",
        r"cannot happen any more: every program of the test has ended\. .*faulty.py has ended with 0",
    ),
    Case(
        registers_again,
        faulty.keeps_its_removed_socket,
        "wait_devices(GPU, 2)",
        r"not in 10 s\. There .*did not come back: .*kubelet.sock is new since .*, no Register",
    ),
    Case(
        registers_again,
        faulty.names_devices_anew,
        "ids(node) == known",
        "other names for the same hardware since the kubelet restarted",
    ),
    Case(
        survives,
        faulty.reports_no_health,
        '"shows the broken device"',
        r"pod a shows the broken device: not in 10 s\. pod/test-\w+/a: running: ",
    ),
    Case(
        survives,
        faulty.dies_with_a_device,
        '"shows the broken device"',
        r"device plugin is not connected\. faulty.py has ended with 1",
    ),
    Case(
        survives,
        faulty.forgets_broken_devices,
        '"shows the broken device"',
        "gpu-0 is Unknown: device is no longer reported by its plugin",
    ),
    Case(
        survives,
        faulty.reports_no_recovery,
        "wait_devices(GPU, 3)",
        r"3 healthy devices .*: not in 10 s\. There are .*gpu-\d Unhealthy.*; the API offers 2",
    ),
    Case(
        rolls, faulty.names_devices_anew, "ids(node) == known", "the new plugin has other names for the same hardware"
    ),
    Case(
        rolls,
        faulty.chooses_devices_itself,
        "others == []",
        "Allocate answers with other devices than the kubelet chose",
    ),
    Case(
        prepares_again,
        faulty.rejects_a_prepared_claim,
        'first = node.prepare(DRIVER, "one-gpu")',
        "the driver did not prepare the claim: .* is prepared already",
    ),
    Case(
        prepares_again,
        faulty.answers_nothing_for_a_prepared_claim,
        "again == told",
        "prepared again gets another answer",
    ),
    Case(prepares_again, faulty.names_prepared_devices_anew, "again == told", "prepared again gets another answer"),
    Case(prepares_again, faulty.prepares_again_with_more_files, "cdi_files(node) == before", "changed the CDI files"),
    Case(
        prepares_again,
        faulty.forgets_claims_when_it_restarts,
        'node.prepare(DRIVER, "one-gpu") == first',
        "the driver did not prepare the claim: the file .* exists already",
    ),
    Case(agent_resumes, faulty.polls, "opened == 1", "the agent opened 0 watches instead of one"),
    Case(
        agent_resumes, faulty.polls_beside_its_watch, "assert listed", r"the agent (polls|lists).*: \d+ calls of List"
    ),
    Case(
        agent_resumes,
        faulty.gives_up_when_the_stream_breaks,
        "sees the second pod",
        r"the agent sees the second pod: not in 10 s\. faulty.py has ended with 1",
    ),
    Case(
        agent_resumes,
        faulty.starts_anew_when_the_stream_breaks,
        'seen("first") == ["ADDED"]',
        "the agent did not resume its watch",
    ),
    Case(agent_resumes, faulty.lists_when_the_stream_breaks, "listed == 0", "lists instead of resuming its watch"),
]
COMMANDS = {
    registers_again: "plugin",
    survives: "plugin",
    rolls: "plugin",
    prepares_again: "dra-driver",
    agent_resumes: "watch",
}
"""Commands of nodeplane whose place the author's program takes."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.recipe.__name__}-{case.bug.__name__}")
def test_recipe_fails_for_the_bug(case: Case, node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_run, real_until = Node.run, waiting.until

    def run(self: Node, *command: str, **options: Any) -> Process:
        replaced = (sys.executable, faulty.__file__, case.bug.__name__, *command[1:])
        return real_run(self, *(replaced if command[1] == COMMANDS[case.recipe] else command), **options)

    def until(
        text: str, holds: Callable[[], Any], timeout: float = PATIENCE_S, *texts: Callable[[], str], **more: Any
    ) -> Any:
        return real_until(text, holds, min(timeout, PATIENCE_S), *texts, **more)

    monkeypatch.setattr(Node, "run", run)
    monkeypatch.setattr("pytest_nodeplane.node.until", until)
    monkeypatch.setattr("pytest_nodeplane.waiting.until", until)
    given = (node, tmp_path) if case.recipe is survives else (node,)
    with pytest.raises(AssertionError) as raised:
        case.recipe(*given)
    recipe = Path(case.recipe.__code__.co_filename)
    lines = [str(entry.statement) for entry in raised.traceback if Path(entry.path) == recipe]
    assert case.line in lines[-1] or case.line in lines[0], raised.getrepr(style="short")
    first = str(raised.value).splitlines()[0]
    assert re.search(case.says, first), first
