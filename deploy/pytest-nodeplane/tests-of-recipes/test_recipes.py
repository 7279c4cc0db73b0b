"""Each recipe fails for a plugin, driver or agent with the bug that it is meant to find, at the line that checks it."""

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


CASES = [
    Case(registers_again, faulty.registers_once, "wait_devices(GPU, 2)"),
    Case(registers_again, faulty.ends_with_the_kubelet, "wait_devices(GPU, 2)"),
    Case(registers_again, faulty.keeps_its_removed_socket, "wait_devices(GPU, 2)"),
    Case(registers_again, faulty.names_devices_anew, "ids(node) == known"),
    Case(survives, faulty.reports_no_health, '"shows the broken device"'),
    Case(survives, faulty.dies_with_a_device, '"shows the broken device"'),
    Case(survives, faulty.forgets_broken_devices, '"shows the broken device"'),
    Case(survives, faulty.reports_no_recovery, "wait_devices(GPU, 3)"),
    Case(rolls, faulty.names_devices_anew, "ids(node) == known"),
    Case(rolls, faulty.chooses_devices_itself, "asked == answered"),
    Case(prepares_again, faulty.rejects_a_prepared_claim, 'first = node.prepare(DRIVER, "one-gpu")'),
    Case(prepares_again, faulty.answers_nothing_for_a_prepared_claim, "for device in first"),
    Case(prepares_again, faulty.names_prepared_devices_anew, "for device in first"),
    Case(prepares_again, faulty.prepares_again_with_more_files, "cdi_files(node) == before"),
    Case(prepares_again, faulty.forgets_claims_when_it_restarts, 'node.prepare(DRIVER, "one-gpu") == first'),
    Case(agent_resumes, faulty.polls, 'requests("list_and_watch") == watches + 1'),
    Case(agent_resumes, faulty.polls_beside_its_watch, 'pod_resources.requests("list")'),
    Case(agent_resumes, faulty.gives_up_when_the_stream_breaks, "sees the second pod"),
    Case(agent_resumes, faulty.starts_anew_when_the_stream_breaks, 'seen("first") == ["ADDED"]'),
    Case(agent_resumes, faulty.lists_when_the_stream_breaks, 'requests("list") == 0'),
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

    def until(text: str, holds: Callable[[], Any], timeout: float = PATIENCE_S, *last: Callable[[], str]) -> Any:
        return real_until(text, holds, min(timeout, PATIENCE_S), *last)

    monkeypatch.setattr(Node, "run", run)
    monkeypatch.setattr("pytest_nodeplane.node.until", until)
    monkeypatch.setattr("pytest_nodeplane.waiting.until", until)
    given = (node, tmp_path) if case.recipe is survives else (node,)
    with pytest.raises(AssertionError) as raised:
        case.recipe(*given)
    recipe = Path(case.recipe.__code__.co_filename)
    lines = [str(entry.statement) for entry in raised.traceback if Path(entry.path) == recipe]
    assert case.line in lines[-1] or case.line in lines[0], raised.getrepr(style="short")
