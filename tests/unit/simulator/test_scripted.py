"""Scripts of stand-ins: times, faults and the lines people read when a script is wrong."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.simulator.engine.faults import Faults
from actors.simulator.engine.playback import Timeline
from actors.simulator.plugin.script import PluginScript
from protocols.process.scripts import CallFault, ScriptInvalid, ScriptStep, Seconds, parse_script, read_script
from tests.support.plane import REPO


@pytest.mark.parametrize(
    ("text", "seconds"), [("5s", 5), ("300ms", 0.3), ("2m", 120), ("1.5", 1.5), (7, 7), ("1h", 3600)]
)
def test_times(text: object, seconds: float) -> None:
    assert Seconds.read(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["soon", "-1s", -1, True, None, "1e9", float("nan"), 10**9, [], "5 s"])
def test_no_times(text: object) -> None:
    with pytest.raises(ValueError, match="no time"):
        Seconds.read(text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[", "s.yaml is no YAML: "),
        ("- 1", "s.yaml: Expected keys, got a list"),
        ("stepps: []", "s.yaml: unknown key `stepps`; did you mean steps?"),
        ("steps: [{at: 5s, unhealty: [a]}]", "s.yaml: unknown key `unhealty` at steps[0]; did you mean unhealthy?"),
        ("steps: [{at: 1}, {crash: true}]", "s.yaml: needs `at` at steps[1]"),
        ("steps: [{at: soon}]", "s.yaml: 'soon' is no time; write 5s, 300ms or 2m at steps[0].at"),
        ("calls: {Alocate: {}}", "s.yaml: unknown word 'Alocate' at key in calls; did you mean Allocate?"),
        ("calls: {Allocate: {code: OOPS}}", "s.yaml: 'OOPS' is no gRPC code; there are CANCELLED,"),
        ("calls: {Allocate: {times: -1}}", "s.yaml: times must be 0 (all calls) or more at calls[...]"),
        ("devices: 100001", "s.yaml: devices must be 0 to 100000"),
        ("preferred: best", "s.yaml: unknown word 'best' at preferred"),
        ("repeat: 5s\nsteps: [{at: 5s}]", "s.yaml: repeat must be later than the last step, at 5s"),
        ("numa: 2\ndevices: 4\nnuma: 3", 's.yaml: line 3: key "numa" already set in map'),
        ("devices: [{id: a, numa: x}]", "s.yaml: Expected a number or a list, got a text at devices[0].numa"),
    ],
)
def test_a_wrong_script_is_one_line_that_names_the_place(text: str, line: str) -> None:
    with pytest.raises(ScriptInvalid) as refused:
        parse_script("s.yaml", text.encode(), PluginScript)
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_script_or_a_clear_refusal(raw: bytes) -> None:
    with contextlib.suppress(ScriptInvalid):
        parse_script("s.yaml", raw, PluginScript)


def test_the_example_is_a_script() -> None:
    script = read_script(REPO / "examples" / "plugins" / "bad-day.yaml", PluginScript)
    assert [float(step.at) for step in script.steps] == [5, 8, 9, 15, 20, 60]
    assert script.steps[1].crash
    assert (script.steps[2].remove, script.steps[2].register) == (2, True)
    assert script.steps[3].calls == {"Allocate": CallFault(error="out of luck", times=1)}


STEPS = st.lists(st.floats(0, 100).map(lambda at: ScriptStep(at=Seconds(at))), max_size=8)


@given(STEPS, st.lists(st.floats(0, 30), max_size=20))
def test_each_step_comes_once_in_time_and_in_order(steps: list[ScriptStep], pauses: list[float]) -> None:
    timeline, now, seen = Timeline(steps), 0.0, []
    for pause in [*pauses, 1000.0]:
        wait = timeline.wait(now)
        now += pause
        due = timeline.due(now)
        assert bool(due) == (wait is not None and wait <= pause) or pause == wait
        assert all(step.at <= now for step in due)
        seen += due
    assert seen == sorted(steps, key=lambda step: step.at)
    assert timeline.wait(now) is None


def test_a_script_may_begin_anew() -> None:
    timeline = Timeline([ScriptStep(at=Seconds(1)), ScriptStep(at=Seconds(2))], repeat=5.0)
    seen = [(now, float(step.at)) for now in range(14) for step in timeline.due(now)]
    assert seen == [(1, 1), (2, 2), (6, 1), (7, 2), (11, 1), (12, 2)]
    assert timeline.wait(13.5) == 1.5


def test_a_fault_for_some_calls_is_over_after_them() -> None:
    faults = Faults({"Allocate": CallFault(error="no", times=2)})
    assert [faults.take("Allocate").error for _ in range(4)] == ["no", "no", "", ""]
    faults.set("Allocate", CallFault(error="again", times=1))
    assert [faults.take("Allocate").error for _ in range(2)] == ["again", ""]
    assert faults.take("ListAndWatch") == CallFault()


def test_a_sequence_has_a_fault_for_each_call_and_then_none() -> None:
    script = parse_script(
        "s.yaml", b"calls: {Allocate: [{times: 2}, {error: full}, {crash: true, restart: 2s}]}", PluginScript
    )
    faults = Faults({str(method): fault for method, fault in script.calls.items()})
    met = [faults.take("Allocate") for _ in range(5)]
    assert [(fault.error, fault.crash) for fault in met] == [("", False)] * 2 + [
        ("full", False),
        ("", True),
        ("", False),
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("calls: {Allocate: {restart: 1s}}", "restart goes with crash"),
        ("answer: {containers: 17}", "containers must be 0 to 16"),
        ("steps: [{at: 1, end: {error: a, code: OOPS}}]", "'OOPS' is no gRPC code"),
    ],
)
def test_a_wrong_end_of_a_call_is_an_error(text: str, line: str) -> None:
    with pytest.raises(ScriptInvalid, match=line):
        parse_script("s.yaml", text.encode(), PluginScript)
