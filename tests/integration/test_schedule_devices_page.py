"""docs/how-to/schedule-devices.md, as it is written: each command in order, until it prints what the page shows."""

import math
import shlex
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.support.document import Step, normalized, steps
from tests.support.plane import BIN, REPO, Plane, until

PAGE = REPO / "docs" / "how-to" / "schedule-devices.md"


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """A plane, as the page's first command starts it."""
    with Plane("--node-name", "node-1") as plane:
        yield plane


def await_next_second(step: Step) -> None:
    """Pods' ages, which decide who is preempted, have seconds: a reader creates no two pods within one."""
    if " apply -f " in step.command:
        now = time.time()
        time.sleep(math.floor(now) + 1.05 - now)


def run(plane: Plane, step: Step) -> str:
    environment = {**plane.environment, "PATH": f"{BIN}:{plane.environment['PATH']}", "HOME": str(plane.root)}
    done = subprocess.run(
        ["bash", "-c", step.command], cwd=REPO, env=environment, capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, f"{PAGE.name}:{step.line} ended with {done.returncode}: {done.stderr}"
    return done.stdout


def start(plane: Plane, step: Step) -> None:
    command, *arguments = shlex.split(step.command.removesuffix("&"))
    with (plane.root / "driver.log").open("ab") as log:
        process = subprocess.Popen([str(BIN / command), *arguments], env=plane.environment, stdout=log, stderr=log)
    plane.plugins.append(process)


@pytest.mark.heavy
def test_page_runs_as_it_is_written(plane: Plane) -> None:
    first, *others = steps(PAGE)
    assert first.command == "nodeplane up --detach --node-name node-1"
    assert len(others) > 15
    for step in others:
        await_next_second(step)
        if step.command.endswith("&"):
            start(plane, step)
        elif not step.printed:
            run(plane, step)
        elif step.command.split()[:2] in (["kubectl", "get"], ["nodeplane", "devices"]):
            prints(plane, step)
        else:
            assert normalized(run(plane, step)) == normalized(step.printed), f"{PAGE.name}:{step.line}"


def prints(plane: Plane, step: Step) -> None:
    """Ask until the answer is that of the page: what it shows takes its time."""
    shown: list[list[str]] = []

    def equal() -> bool:
        shown.append(normalized(run(plane, step)))
        return shown[-1] == normalized(step.printed)

    try:
        until(f"{PAGE.name}:{step.line} prints what it shows", equal, timeout=40, every=0.3)
    except AssertionError:
        assert shown[-1] == normalized(step.printed), f"{PAGE.name}:{step.line}: {step.command}"
        raise
