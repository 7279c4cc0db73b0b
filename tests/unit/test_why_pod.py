"""`nodeplane why pod/NAME`: the conclusion from evidence that a real plane had (tests/support/record_why.py)."""

from functools import cache
from pathlib import Path

import msgspec
import pytest

from supervisor.why.model.text import lines
from supervisor.why.model.types import Diagnosis, PodEvidence
from supervisor.why.pods.diagnose import diagnose_pod
from supervisor.why.pods.slow import slowest, start_of

RECORDED = Path(__file__).parents[1] / "support" / "why"


@cache
def recorded(name: str) -> PodEvidence:
    return msgspec.json.decode((RECORDED / f"{name}.json").read_bytes(), type=PodEvidence)


def diagnosed(name: str) -> Diagnosis:
    return diagnose_pod(recorded(name))


@pytest.mark.parametrize(
    ("name", "state", "words"),
    [
        ("crash", "crash loop", ["container main ended with exit code 3 at", "restarted 7 times", "back-off 5m0s"]),
        ("initcrash", "crash loop", ["init container setup ended with exit code 1"]),
        ("notready", "not ready", ["readiness probe (exec sh -c echo no model; exit 1)", "last answer at", "no model"]),
        ("finalized", "terminating", ["by kubernetes-admin", "example.com/keep (set by kubectl-client-side-apply"]),
        ("novolume", "waiting for its volumes", ['volume "c" : configmap "nowhere" not found']),
        ("noconfig", "waiting for its configuration", ['env A: configmap "nowhere" not found']),
        ("noclaim", "pending", ["claim default/nowhere: does not exist"]),
        ("selector", "pending", ["1 node: does not match the pod's nodeSelector: no label zone"]),
        ("plugin-gone", "pending", ["Insufficient example.com/gpu", "gone: example.com-gpu-30214.sock served until"]),
        ("gated", "scheduling gated", ["gate example.com/wait must be removed"]),
        ("failed", "failed", ["exit code 7", "its restart policy is Never"]),
        ("done", "succeeded", ["exit code 0"]),
        ("fine", "running", ["ready since"]),
        ("gone", "gone", ["kubernetes-admin deleted it"]),
    ],
)
def test_state_names_the_reason(name: str, state: str, words: list[str]) -> None:
    found = diagnosed(name)
    assert (found.state, [word for word in words if word not in found.reason]) == (state, [])
    assert "\n" not in found.reason


def test_crash_loop_shows_the_last_lines_of_the_log() -> None:
    assert "log of main: cannot open /dev/nope" in diagnosed("crash").evidence


def test_start_names_its_longest_part() -> None:
    steps = recorded("fine").steps
    assert (window := start_of(steps)) is not None
    name, length = slowest(steps)
    assert name.startswith(("step ", "nothing between "))
    assert 0 < length <= window[1] - window[0]


def test_long_start_is_its_own_state() -> None:
    found = recorded("fine")
    late = [
        msgspec.structs.replace(row, start_ns=row.start_ns + (20 * 10**9 if row.name == "start container" else 0))
        for row in found.steps
    ]
    slow = diagnose_pod(msgspec.structs.replace(found, steps=tuple(late)))
    assert slow.state == "slow start"
    assert "nothing between" in slow.reason


def test_lines_are_bounded() -> None:
    shown = lines(Diagnosis("pod/default/a", "failed", "x" * 2000, tuple("e" * 2000 for _ in range(100))))
    assert len(shown) == 32
    assert max(map(len, shown)) < 600
    assert shown[-1] == "  and 70 more lines; -o json shows all"
