"""Never do two candidates both feel sure that they lead, whatever is lost, late or killed; and somebody does lead."""

import asyncio
import logging
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.kube.errors import ApiAway
from protocols.kubeclient import election
from protocols.kubeclient.election import Election, ElectionOptions, LeaderElector, LeadershipLost

LEASE = dict[str, Any]


def candidate(name: str) -> Election:
    return Election(ElectionOptions(name="l", identity=name))


class Server:
    """One lease, writes guarded by its version."""

    def __init__(self) -> None:
        self.lease: LEASE | None = None
        self.version = 0

    def write(self, lease: LEASE) -> LEASE | None:
        """None = refused."""
        expected = lease["metadata"].get("resourceVersion")
        if (self.lease or {"metadata": {}})["metadata"].get("resourceVersion") != expected:
            return None
        self.version += 1
        self.lease = {**lease, "metadata": {**lease["metadata"], "resourceVersion": str(self.version)}}
        return self.lease


STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["try", "try", "try", "kill", "release", "delete", "answer lost"]),
        st.floats(0, 6),
        st.floats(0, 3),
    ),
    max_size=60,
)


@given(STEPS)
def test_at_most_one_is_sure(steps: list[tuple[int, str, float, float]]) -> None:
    server, all_ = Server(), [candidate(name) for name in "abc"]
    now = 0.0
    for who, what, later, slow in steps:
        now += later
        me = all_[who]
        if what == "kill":
            all_[who] = candidate("abc"[who])
        elif what == "delete":
            if not any(one.leads(now) for one in all_):
                server.lease = None
        elif what == "release":
            lease = me.released("t")
            if lease is not None:
                server.write(lease)
        else:
            now = attempt(server, me, now, slow, lost=what == "answer lost")
        assert sum(one.leads(now) for one in all_) <= 1


def attempt(server: Server, me: Election, now: float, slow: float, lost: bool) -> float:
    """A look, a write, and an answer that may be late or never come."""
    asked_at = now
    if not me.leads(now):
        me.seen(server.lease, now)
    lease = me.wanted(now, f"t{now}")
    if lease is None:
        return now
    taken = server.write(lease)
    now += slow
    if taken is None:
        me.seen(server.lease, now)
    elif not lost:
        me.written(taken, asked_at, now)
    return now


def test_a_killed_leader_is_followed_after_its_term_and_leads_again_at_once_itself() -> None:
    server, a, b = Server(), candidate("a"), candidate("b")
    attempt(server, a, 0.0, 0.0, False)
    assert a.leads(0.0)
    for now in (1.0, 8.0, 15.9):
        attempt(server, b, now, 0.0, False)
        assert not b.leads(now)
    again = candidate("a")
    attempt(server, again, 15.95, 0.0, False)
    assert again.leads(15.95)
    attempt(server, b, 16.1, 0.0, False)
    assert not b.leads(16.1), "the term is counted from the last renewal that was seen"
    attempt(server, b, 31.2, 0.0, False)
    assert b.leads(31.2)
    assert server.lease is not None
    assert server.lease["spec"]["leaseTransitions"] == 1


def test_a_released_lease_is_free_at_once() -> None:
    server, a, b = Server(), candidate("a"), candidate("b")
    attempt(server, a, 0.0, 0.0, False)
    lease = a.released("t")
    assert lease is not None
    server.write(lease)
    assert not a.leads(0.1)
    attempt(server, b, 0.2, 0.0, False)
    assert b.leads(0.2)


def test_who_loses_the_lease_is_not_sure_any_more() -> None:
    server, a = Server(), candidate("a")
    attempt(server, a, 0.0, 0.0, False)
    assert a.leads(9.9)
    assert not a.leads(10.0)
    assert server.lease is not None
    a.seen({**server.lease, "spec": {**server.lease["spec"], "holderIdentity": "b"}}, 1.0)
    assert not a.leads(1.0)


class Leaving:
    """An API that takes the first write, and is away from then on."""

    def __init__(self) -> None:
        self.writes = 0

    async def get(self, *_: object) -> LEASE:
        if self.writes:
            raise ApiAway("nobody listens")
        return {"metadata": {"resourceVersion": "1"}, "spec": {}}

    async def update(self, resource: object, lease: LEASE, *_: object) -> LEASE:
        self.writes += 1
        if self.writes > 1:
            raise ApiAway("nobody listens")
        return lease


def test_a_leader_that_cannot_renew_is_told_so_and_not_that_it_holds_the_lease_itself() -> None:
    options = ElectionOptions(name="l", identity="me", renew_deadline=0.2, retry=0.05)

    async def story() -> None:
        elector = LeaderElector(Leaving(), options, logging.getLogger("test"))  # type: ignore[arg-type]
        await elector.lead(lambda note: None)
        await elector.renew()

    with pytest.raises(LeadershipLost, match=r"l could not be renewed for 0\.2 s"):
        asyncio.run(story())


class Silent(Leaving):
    """An API that takes the first write, and never answers from then on."""

    async def get(self, *_: object) -> LEASE:
        return await asyncio.Event().wait() if self.writes else await super().get()  # type: ignore[return-value]

    async def update(self, resource: object, lease: LEASE, *_: object) -> LEASE:
        return await asyncio.Event().wait() if self.writes else await super().update(resource, lease)  # type: ignore[return-value]


class HastyLoop(asyncio.SelectorEventLoop):
    """Does not wait for its timers: its time is theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._selector.select = self._select  # type: ignore[attr-defined]

    def time(self) -> float:
        return self.now

    def _select(self, timeout: float | None = None) -> list[object]:
        self.now += timeout or 0.0
        return []


def test_a_leader_whose_requests_hang_ends_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """It acted for 8 s longer, and another candidate leads after 5 of them."""
    loop = HastyLoop()
    monkeypatch.setattr(election, "time", SimpleNamespace(monotonic=loop.time))
    options = ElectionOptions(name="l", identity="me")
    elector = LeaderElector(Silent(), options, logging.getLogger("test"))  # type: ignore[arg-type]

    async def story() -> None:
        await elector.lead(lambda note: None)
        await elector.renew()

    with closing(loop), pytest.raises(LeadershipLost):
        loop.run_until_complete(story())
    assert loop.now == pytest.approx(options.renew_deadline)
