"""The queue against a naive one, over random histories."""

from dataclasses import dataclass, field

from hypothesis import example, given
from hypothesis import strategies as st

from actors.scheduler.model.queue import EARLY_S, FLUSH_S, Queue

TOPICS = ("room", "devices", "claim")
UIDS = st.sampled_from("abc")
SOME = st.frozensets(st.sampled_from(TOPICS), max_size=2)
STEPS: st.SearchStrategy[tuple[str, str, frozenset[str]]] = st.one_of(
    st.tuples(st.sampled_from(["add", "remove", "trying", "retry"]), UIDS, st.just(frozenset())),
    st.tuples(st.sampled_from(["failed", "gated"]), UIDS, SOME),
    st.tuples(st.just("changed"), st.sampled_from(TOPICS), st.just(frozenset())),
    st.tuples(st.sampled_from(["later", "much later"]), st.just(""), st.just(frozenset())),
)


@dataclass
class Pod:
    due: bool = True
    trying: bool = False
    tries: int = 0
    not_before: float = 0.0
    early: float = 0.0
    topics: frozenset[str] = field(default_factory=frozenset)
    since: float = 0.0
    missed: set[str] = field(default_factory=set)
    """Topics that changed during the attempt."""


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
    queue, pods, now, next_early = Queue(), dict[str, Pod](), 0.0, 0.0
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
                    pod.trying, pod.due, pod.missed = True, False, set()
            case "failed" | "gated" | "retry":
                if step == "failed":
                    queue.failed(what, now, topics)
                elif step == "gated":
                    queue.park(what, now, topics)
                else:
                    queue.retry(what, now)
                if pod is not None:
                    if step != "gated":
                        pod.tries += 1
                        pod.not_before = now + min(10.0, 2.0 ** (pod.tries - 1))
                        pod.early = pod.not_before if step == "retry" else now + 1.0
                    pod.due = pod.due or step == "retry" or (pod.trying and bool(pod.missed & topics))
                    pod.trying, pod.topics, pod.since = False, topics, now
            case "changed":
                for each in pods.values():
                    each.missed.add(what)
                woken = [each for each in pods.values() if not each.due and not each.trying and what in each.topics]
                assert queue.changed(what) == bool(woken)
                for each in woken:
                    each.due = True
            case "later":
                now += 3.0
            case "much later":
                now += FLUSH_S - 3.0
        for each in pods.values():
            each.due = each.due or (not each.trying and each.since + FLUSH_S <= now)
        ready = {uid for uid, each in pods.items() if each.due and not each.trying and each.not_before <= now}
        early = [uid for uid, each in pods.items() if each.due and not each.trying and each.early <= now]
        found = queue.ready(now)
        if ready or next_early > now:
            assert set(found) == ready
        else:
            assert len(found) == bool(early)
            assert [pods[uid].not_before for uid in found] == sorted(pods[uid].not_before for uid in early)[:1]
            next_early = now + EARLY_S if found else next_early
        waiting = [each for each in pods.values() if not each.trying]
        backoffs = [min(each.not_before, max(each.early, next_early)) for each in waiting if each.due]
        due = backoffs + [each.since + FLUSH_S for each in waiting if not each.due]
        assert queue.next_at() == min(due, default=None)
        assert sum(queue.counts(now).values()) == len(queue) == len(pods)
        for uid, each in pods.items():
            waits = not (each.due or each.trying) and each.topics
            assert bool(queue.waits_for(uid, now)) == (not each.trying)
            assert queue.waits_for(uid, now).startswith("a change of ") == bool(waits)
            assert (queue.waits_for(uid, now) == "its turn") == (uid in ready)
        assert queue.counts(now)["unschedulable"] == sum(not each.due and not each.trying for each in pods.values())
