"""The queue against a naive one, over random histories."""

from dataclasses import dataclass, field

from hypothesis import example, given
from hypothesis import strategies as st

from actors.scheduler.model.queue import Queue

TOPICS = ("room", "devices", "claim")
UIDS = st.sampled_from("abc")
SOME = st.frozensets(st.sampled_from(TOPICS), max_size=2)
STEPS: st.SearchStrategy[tuple[str, str, frozenset[str]]] = st.one_of(
    st.tuples(st.sampled_from(["add", "remove", "trying", "retry"]), UIDS, st.just(frozenset())),
    st.tuples(st.sampled_from(["failed", "gated"]), UIDS, SOME),
    st.tuples(st.just("changed"), st.sampled_from(TOPICS), st.just(frozenset())),
    st.tuples(st.just("later"), st.just(""), st.just(frozenset())),
)


@dataclass
class Pod:
    due: bool = True
    trying: bool = False
    tries: int = 0
    failing: bool = False
    not_before: float = 0.0
    topics: frozenset[str] = field(default_factory=frozenset)


NONE: frozenset[str] = frozenset()
TOLD_AGAIN = [
    ("add", "a", NONE),
    ("trying", "a", NONE),
    ("failed", "a", frozenset(("devices",))),
    ("retry", "a", NONE),
    ("remove", "a", NONE),
    ("changed", "devices", NONE),
]
"""A try that failed, and then could not even be told of."""


@given(st.lists(STEPS, max_size=40))
@example(TOLD_AGAIN)
def test_it_agrees_with_a_naive_one(steps: list[tuple[str, str, frozenset[str]]]) -> None:
    queue, pods, now = Queue(), dict[str, Pod](), 0.0
    for step, what, topics in steps:
        pod = pods.get(what)
        match step:
            case "add":
                queue.add(what)
                pods.setdefault(what, Pod()).due = True
            case "remove":
                queue.remove(what)
                pods.pop(what, None)
            case "trying":
                assert queue.start(what) == (pod is not None and not pod.trying)
                if pod is not None and not pod.trying:
                    pod.trying, pod.due = True, False
            case "failed" | "gated" | "retry":
                if step == "failed":
                    queue.failed(what, now, topics)
                elif step == "gated":
                    queue.park(what, topics)
                else:
                    queue.retry(what, now)
                if pod is not None:
                    if step != "gated":
                        pod.tries += 1
                        pod.not_before = now + min(10.0, 2.0 ** (pod.tries - 1))
                        pod.failing = step == "retry"
                    pod.trying, pod.topics = False, topics
                    pod.due = pod.due or step == "retry"
            case "changed":
                woken = [each for each in pods.values() if not each.due and (each.trying or what in each.topics)]
                assert queue.changed(what) == bool(woken)
                for each in woken:
                    each.due = True
            case "later":
                now += 3.0
        due = {uid: each for uid, each in pods.items() if each.due and not each.trying}
        ended = {uid for uid, each in due.items() if each.not_before <= now}
        early = {uid for uid, each in due.items() if not each.failing}
        assert set(queue.ready(now)) == (ended or early)
        next_at = min((each.not_before if each.failing else 0.0 for each in due.values()), default=None)
        assert queue.next_at() == next_at
        assert (next_at is not None and next_at <= now) == bool(ended or early), "nobody waits or is awake in vain"
        assert sum(queue.counts(now).values()) == len(queue) == len(pods)
        for uid, each in pods.items():
            waits = not (each.due or each.trying) and each.topics
            assert bool(queue.waits_for(uid, now)) == (not each.trying)
            assert queue.waits_for(uid, now).startswith("a change of ") == bool(waits)
            assert (queue.waits_for(uid, now) == "its turn") == (uid in ended | early)
        assert queue.counts(now)["unschedulable"] == sum(not each.due and not each.trying for each in pods.values())


def test_a_pod_whose_backoff_is_cut_short_lets_others_go_first() -> None:
    queue = Queue()
    for uid in "ab":
        queue.add(uid)
        queue.start(uid)
    queue.failed("b", 1.0)
    queue.failed("a", 1.2)
    assert queue.ready(1.5) == []
    queue.changed("room")
    assert queue.ready(1.5) == ["b", "a"]
    assert not queue.is_outranked("b", 1.5)
    queue.add("new")
    assert queue.is_outranked("b", 1.5)
    assert queue.ready(1.5) == ["new"]
    assert not queue.is_outranked("new", 1.5)
