"""The how-tos on tests in other projects: the jobs are YAML, and every `nodeplane` in them is a command that exists."""

import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from supervisor.cli.commands import COMMANDS, command_of, parser_of

REPO = Path(__file__).parents[3]
PAGES = [
    REPO / "docs" / "how-to" / name for name in ("test-in-ci.md", "test-in-any-language.md", "test-with-pytest.md")
]
GO = (REPO / "supervisor" / "begin" / "templates" / "plugin-go" / "plugin_test.go").read_text()
BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def jobs() -> Iterator[dict[str, Any]]:
    for text in BLOCK.findall(PAGES[0].read_text()):
        loaded = yaml.safe_load(text)
        yield from loaded.get("jobs", loaded).values()


def lines() -> Iterator[str]:
    """Yield the commands of all jobs, and those that the pages show on a terminal."""
    for job in jobs():
        yield from (step["run"] for step in job.get("steps", ()) if "run" in step)
        yield from (*job.get("before_script", ()), *job.get("script", ()))
    for page in PAGES:
        yield from re.findall(r"^    \$ (nodeplane .*)$", page.read_text(), re.MULTILINE)


def go_calls() -> list[list[str]]:
    """Return the words after `nodeplane` in calls of the Go project."""
    return [re.findall(r'"([^"]*)"', words) for words in re.findall(r'"nodeplane",((?: "[^"]*",?)+)', GO)]


COMMAND_LINES = [shlex.split(line)[1:] for line in lines() if line.startswith("nodeplane ")]


@pytest.mark.parametrize("words", [*COMMAND_LINES, *go_calls()], ids=" ".join)
def test_command_of_a_page_or_of_the_go_project_exists(words: list[str]) -> None:
    command = COMMANDS[command_of(words)]
    parser_of([import_module(command.path)]).parse_args(words)


def test_pages_have_three_jobs_and_the_go_project_calls_nodeplane() -> None:
    assert len(list(jobs())) == 3
    assert len(COMMAND_LINES) >= 6
    assert {words[0] for words in go_calls()} == {"devices", "restart"}
