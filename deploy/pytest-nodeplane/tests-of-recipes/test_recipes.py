"""Each recipe on a node fails for a program with the bug that it is meant to find, at the line that checks it.

Bugs that break a rule of a behaviour are those of `nodeplane conform`: tests/integration/test_conform_bugs.py.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import faulty
import pytest
from test_recipe_agent import test_agent_watches_instead_of_polling_and_resumes as agent_resumes
from test_recipe_driver import test_pod_runs_on_and_its_cdi_files_stay_when_driver_and_kubelet_restart as stays
from test_recipe_plugin import test_pod_keeps_its_device_when_the_kubelet_restarts as keeps
from test_recipe_plugin import test_pod_shows_its_broken_device_and_no_other_gets_it as shows

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
        keeps,
        faulty.registers_once,
        "wait_devices(GPU, 2)",
        r"2 healthy devices .*: not in 10 s\. There .* Unknown .*: did not come back: .*, no Register since",
    ),
    Case(
        shows,
        faulty.reports_no_health,
        '"shows the broken device"',
        r"pod a shows the broken device: not in 10 s\. pod/test-\w+/a: running: ",
    ),
    Case(stays, faulty.prepares_again_with_more_files, "cdi_files(node) == before", "changed the CDI files"),
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
COMMANDS = {keeps: "plugin", shows: "plugin", stays: "dra-driver", agent_resumes: "watch"}
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
    given = (node, tmp_path) if case.recipe is shows else (node,)
    with pytest.raises(AssertionError) as raised:
        case.recipe(*given)
    recipe = Path(case.recipe.__code__.co_filename)
    lines = [str(entry.statement) for entry in raised.traceback if Path(entry.path) == recipe]
    assert case.line in lines[-1] or case.line in lines[0], raised.getrepr(style="short")
    first = str(raised.value).splitlines()[0]
    assert re.search(case.says, first), first
