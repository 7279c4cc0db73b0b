"""Owner and follower over a bad network: in the end they agree, and no edge event is ever skipped in silence."""

from hypothesis import given
from hypothesis import strategies as st

from tests.support.bus_sim import Sim

INDEX = st.integers(0, 5)
STEP = st.one_of(
    st.tuples(st.just("write"), st.sampled_from("abcd"), st.booleans(), st.integers(1, 3)),
    st.tuples(st.just("commit_and_crash"), st.sampled_from("abcd")),
    st.tuples(st.just("hear"), INDEX),
    st.tuples(st.just("hear_next"), st.integers(1, 8)),
    st.tuples(st.just("repeat"), INDEX),
    st.tuples(st.just("lose"), INDEX),
    st.tuples(st.just("serve")),
    st.tuples(st.just("lose_question")),
    st.tuples(st.just("answer")),
    st.tuples(st.just("repeat_answer")),
    st.tuples(st.just("lose_answer")),
    st.tuples(st.just("tick")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("calm")),
    st.tuples(st.just("reconnect")),
    st.tuples(st.just("wait"), st.sampled_from([0.02, 0.3, 1.0, 4.0])),
)
STEPS = st.lists(STEP, max_size=60)


def run(sim: Sim, steps: list[tuple]) -> None:
    sim.calm()
    for name, *arguments in steps:
        act(sim, name, arguments)


def act(sim: Sim, name: str, arguments: list) -> None:
    if name == "write":
        sim.write(arguments[0], arguments[1], arguments[2])
    elif name == "commit_and_crash":
        sim.write(arguments[0], publish=False)
    elif name == "hear":
        sim.hear(arguments[0])
    elif name == "hear_next":
        for _ in range(arguments[0]):
            sim.hear()
    elif name == "repeat":
        sim.hear(arguments[0], keep=True)
    elif name == "lose":
        sim.lose(arguments[0])
    elif name == "lose_question":
        sim.asked[:1] = []
    elif name == "repeat_answer":
        sim.answer(keep=True)
    elif name == "lose_answer":
        sim.answers[:1] = []
    elif name == "reconnect":
        sim.disconnect()
        sim.connect()
    else:
        getattr(sim, name)(*arguments)


def assert_converged(sim: Sim) -> None:
    sim.settle()
    assert sim.follower.synced
    assert (sim.follower.epoch, sim.follower.seq) == (sim.epoch, sim.stream.seq)
    assert sim.follower.mark == sim.stream.mark


def assert_no_silent_skip(sim: Sim) -> None:
    """Between two signals the numbers run on without a hole, a repetition or a step back."""
    last = None
    for number in sim.told:
        assert number is None or last is None or number == last + 1
        last = number
    final = [number for number in sim.told if number is not None]
    assert not sim.count or sim.told[-1] is None or final[-1] == sim.count


@given(STEPS, st.booleans())
def test_state_stream_any_faults_converges(steps: list[tuple], marks: bool) -> None:
    sim = Sim(edge=False, replays=False, marks=marks)
    run(sim, steps)
    assert_converged(sim)
    assert sim.replica == sim.durable.state


@given(STEPS)
def test_state_stream_replayed_by_mark_has_one_snapshot(steps: list[tuple]) -> None:
    sim = Sim(edge=False, replays=True)
    sim.write("a")
    sim.settle()
    run(sim, steps)
    assert_converged(sim)
    assert sim.replica == sim.durable.state
    assert sim.swaps == 1


@given(STEPS, st.booleans())
def test_edge_stream_any_faults_is_complete_or_reports_gap(steps: list[tuple], marks: bool) -> None:
    sim = Sim(edge=True, replays=False, marks=marks)
    run(sim, steps)
    assert_converged(sim)
    assert_no_silent_skip(sim)


@given(STEPS)
def test_edge_stream_replayed_by_mark_is_exact(steps: list[tuple]) -> None:
    sim = Sim(edge=True, replays=True)
    sim.write("a")
    sim.settle()
    run(sim, steps)
    assert_converged(sim)
    assert_no_silent_skip(sim)
    assert sim.told.count(None) == 1
    assert sim.told[-1] == sim.count or sim.count == 1
