"""Priority and fairness: the dispatcher as a model, the schemas of users, widths, and waiting requests."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from actors.apiserver.api.errors import TooManyRequests
from actors.apiserver.api.request.target import Target
from actors.apiserver.api.request.user import User
from actors.apiserver.http.connection import unread
from actors.apiserver.http.fairness import levels
from actors.apiserver.http.fairness.control import FlowControl, LongRunning
from actors.apiserver.http.fairness.dispatcher import (
    FLOW_QUEUE,
    FLOW_SEATS,
    LEVEL_QUEUE,
    MAX_WIDTH,
    Dispatcher,
    Flow,
    Level,
    State,
    Ticket,
)
from actors.apiserver.http.fairness.levels import Schema, borrowable_seats, nominal_seats, standing_of
from actors.apiserver.http.fairness.metrics import FlowMetrics
from actors.apiserver.http.routing.call import Call
from actors.apiserver.http.routing.route import Routes
from actors.apiserver.http.routing.seats import Seats, body_width, list_width, wait_seconds, width_of
from actors.apiserver.http.routing.stalled import StalledRequests
from actors.apiserver.replica.replica import Replica
from actors.apiserver.table import TABLE
from tests.support.waiting import until_async

ALICE, BOB = User("alice", ("system:authenticated",)), User("bob", ("system:authenticated",))
ADMIN = User("admin", ("system:masters", "system:authenticated"))
SCHEDULER = User("system:kube-scheduler", ("system:authenticated",))
NODE = User("system:node:n1", ("system:nodes", "system:authenticated"))
ACCOUNT = User("system:serviceaccount:a:b", ("system:serviceaccounts", "system:serviceaccounts:a"))
KUBE_SYSTEM = User("system:serviceaccount:kube-system:b", ("system:serviceaccounts", levels.KUBE_SYSTEM))
LEASES = "leases.coordination.k8s.io"


def small() -> Dispatcher:
    return Dispatcher([Level("low", 20, 40), Level("high", 10, 12), Level("exempt", float("inf"), 0)], 40)


def entered(dispatcher: Dispatcher, flow: Flow, width: int, now: float = 0.0) -> Ticket:
    return dispatcher.enter(flow, width, now)[0]


def test_a_flow_beyond_its_seats_waits_while_another_starts_at_once() -> None:
    dispatcher = small()
    hog, other = dispatcher.flow("s", "hog", "low"), dispatcher.flow("s", "other", "low")
    states = [entered(dispatcher, hog, 10).state for _ in range(30)]
    assert states == [State.EXECUTING] + [State.QUEUED] * 29
    assert entered(dispatcher, other, 1).state is State.EXECUTING


def test_a_flow_beyond_its_queue_is_rejected_and_nobody_else() -> None:
    dispatcher = small()
    hog, other = dispatcher.flow("s", "hog", "low"), dispatcher.flow("s", "other", "low")
    states = Counter(entered(dispatcher, hog, 1).state for _ in range(FLOW_SEATS + FLOW_QUEUE + 5))
    assert states == {State.EXECUTING: FLOW_SEATS, State.QUEUED: FLOW_QUEUE, State.REJECTED: 5}
    assert entered(dispatcher, other, 1).state is State.EXECUTING


def test_a_full_level_rejects_the_newest_of_its_longest_queue() -> None:
    dispatcher = small()
    hogs = [dispatcher.flow("s", f"hog{n}", "low") for n in range(LEVEL_QUEUE // FLOW_QUEUE + 4)]
    tickets = [entered(dispatcher, hog, MAX_WIDTH) for _ in range(FLOW_QUEUE + 1) for hog in hogs]
    assert dispatcher.queued == LEVEL_QUEUE
    ticket, outcome = dispatcher.enter(dispatcher.flow("s", "other", "low"), 1, 0.0)
    assert ticket.state in (State.QUEUED, State.EXECUTING)
    assert [victim.flow in hogs and victim in tickets for victim in outcome.rejected] == [True]
    assert dispatcher.queued <= LEVEL_QUEUE


def test_the_least_served_flow_goes_first() -> None:
    dispatcher = small()
    flows = [dispatcher.flow("s", name, "low") for name in ("a", "b", "c")]
    running = [entered(dispatcher, flow, 10, 0.0) for flow in flows]
    running.append(entered(dispatcher, dispatcher.flow("s", "d", "low"), 10, 0.0))
    for _ in range(5):
        entered(dispatcher, flows[0], 10, 1.0)
    late = entered(dispatcher, dispatcher.flow("s", "late", "low"), 10, 2.0)
    assert late.state is State.QUEUED
    assert dispatcher.leave(running[1], 3.0).started == [late]


def test_a_level_has_its_seats_however_busy_another_is() -> None:
    dispatcher = small()
    for number in range(40):
        entered(dispatcher, dispatcher.flow("s", f"u{number}", "low"), 1)
    assert entered(dispatcher, dispatcher.flow("s", "u41", "low"), 1).state is State.QUEUED
    high = [entered(dispatcher, dispatcher.flow("t", f"v{n}", "high"), 1).state for n in range(11)]
    assert high == [State.EXECUTING] * 10 + [State.QUEUED]


def test_exempt_requests_neither_wait_nor_take_seats() -> None:
    dispatcher = small()
    flow = dispatcher.flow("exempt", "admin", "exempt")
    assert {entered(dispatcher, flow, 10).state for _ in range(500)} == {State.EXECUTING}
    assert dispatcher.seats == 0


Steps = st.lists(
    st.tuples(
        st.sampled_from(["enter", "enter", "leave"]),
        st.integers(0, 5),
        st.integers(1, MAX_WIDTH),
        st.integers(0, 10**6),
        st.floats(0, 0.2),
    ),
    max_size=250,
)


@given(Steps)
def test_any_history_keeps_the_bounds_wastes_no_seat_and_starves_nobody(steps: list[Any]) -> None:
    dispatcher, now, live = small(), 0.0, []
    flows = [dispatcher.flow("s", f"f{n}", "low" if n < 4 else "high") for n in range(6)]
    for what, flow, width, pick, passed in steps:
        now += passed
        if what == "enter":
            live.append(entered(dispatcher, flows[flow], width, now))
        elif live:
            dispatcher.leave(live.pop(pick % len(live)), now)
        check(dispatcher, flows, live)
    for _ in range(len(live) + 1):
        executing = next((ticket for ticket in live if ticket.state is State.EXECUTING), None)
        if executing is None:
            break
        live.remove(executing)
        dispatcher.leave(executing, now)
    assert {ticket.state for ticket in live} <= {State.REJECTED}
    assert dispatcher.seats == dispatcher.queued == 0
    assert all(flow.idle and not flow.seats for flow in flows)


def check(dispatcher: Dispatcher, flows: list[Flow], live: list[Ticket]) -> None:
    by_state: dict[State, list[Ticket]] = {state: [] for state in State}
    for ticket in live:
        by_state[ticket.state].append(ticket)
    assert sum(ticket.width for ticket in by_state[State.EXECUTING]) == dispatcher.seats
    assert len(by_state[State.QUEUED]) == dispatcher.queued
    for level in dispatcher.levels.values():
        mine = [flow for flow in flows if flow.level is level]
        assert level.seats == sum(flow.seats for flow in mine) <= max(level.most, MAX_WIDTH)
        assert set(level.waiting) == {flow for flow in mine if flow.queue}
        able = [f for f in level.waiting if not f.executing or f.seats + f.queue[0].width <= FLOW_SEATS]
        if able:  # the next in turn does not fit
            width = min(able, key=lambda flow: flow.served).queue[0].width
            assert level.seats
            assert level.seats + width > level.nominal
            assert level.seats + width > level.most or dispatcher.seats + width > dispatcher.total
    assert all(flow.seats <= max(FLOW_SEATS, MAX_WIDTH) and len(flow.queue) <= FLOW_QUEUE for flow in flows)


@given(st.integers(1, 30), st.integers(1, MAX_WIDTH), st.integers(1, 5))
def test_beside_a_hog_every_other_flow_is_served_as_often(hogs: int, width: int, others: int) -> None:
    """One process of a single seat: a hog with many wide requests, others that come again once they are answered."""
    dispatcher = Dispatcher([Level("low", MAX_WIDTH, MAX_WIDTH)], MAX_WIDTH)
    hog = dispatcher.flow("s", "hog", "low")
    flows = [dispatcher.flow("s", f"o{n}", "low") for n in range(others)]
    live = [entered(dispatcher, hog, MAX_WIDTH) for _ in range(hogs)]
    live += [entered(dispatcher, flow, width) for flow in flows]
    served: Counter[Flow] = Counter()
    for turn in range(200):
        ticket = next(ticket for ticket in live if ticket.state is State.EXECUTING)
        live.remove(ticket)
        dispatcher.leave(ticket, turn * 0.1)
        served[ticket.flow] += 1
        live.append(entered(dispatcher, ticket.flow, ticket.width, turn * 0.1))
    assert min(served[flow] for flow in flows) * 2 >= served[hog] - 2


@pytest.mark.parametrize(
    ("user", "resource", "schema", "level"),
    [
        (ADMIN, "pods", "exempt", "exempt"),
        (ALICE, "pods", "global-default", "global-default"),
        (SCHEDULER, "pods", "kube-scheduler", "workload-high"),
        (SCHEDULER, LEASES, "system-leader-election", "leader-election"),
        (User("system:kube-controller-manager"), "pods", "kube-controller-manager", "workload-high"),
        (NODE, "pods", "system-nodes", "system"),
        (NODE, LEASES, "system-node-high", "node-high"),
        (NODE, "nodes", "system-node-high", "node-high"),
        (ACCOUNT, LEASES, "service-accounts", "workload-low"),
        (KUBE_SYSTEM, LEASES, "workload-leader-election", "leader-election"),
        (KUBE_SYSTEM, "pods", "kube-system-service-accounts", "workload-high"),
    ],
)
def test_standing_of_a_user_names_upstreams_schema_and_level(
    user: User, resource: str, schema: str, level: str
) -> None:
    found: Schema = standing_of(user).schema_of(resource)
    assert (found.name, found.level.name) == (schema, level)


def test_levels_share_all_seats_and_lend_as_upstream() -> None:
    seats = {level.name: nominal_seats(level) for level in levels.LIMITED}
    assert seats == {
        "leader-election": 5,
        "node-high": 17,
        "system": 13,
        "workload-high": 17,
        "workload-low": 42,
        "global-default": 9,
    }
    assert borrowable_seats(levels.GLOBAL_DEFAULT) == 4 + 4 + 8 + 37


@pytest.mark.parametrize(
    ("stored", "query", "width"),
    [
        (0, {}, 1),
        (100, {}, 1),
        (101, {}, 2),
        (10**6, {}, MAX_WIDTH),
        (10**6, {"limit": "500"}, 5),
        (10**6, {"limit": "500", "resourceVersion": "0"}, MAX_WIDTH),
        (10**6, {"limit": "1", "labelSelector": "a"}, MAX_WIDTH),
        (10**6, {"limit": "1", "fieldSelector": "metadata.namespace=a"}, MAX_WIDTH),
        (10**6, {"limit": "0"}, MAX_WIDTH),
        (10**6, {"limit": "9" * 5000}, MAX_WIDTH),
        (10**6, {"limit": "-1"}, MAX_WIDTH),
        (10**6, {"watch": "1"}, MAX_WIDTH),
        (10**6, {"watch": "1", "resourceVersion": "7"}, 1),
        (10**6, {"fieldSelector": "metadata.name=a", "limit": "500", "resourceVersion": "0"}, 1),
        (10**6, {"fieldSelector": "metadata.name=a", "continue": "forged"}, MAX_WIDTH),
        (10**6, {"fieldSelector": "metadata.name!=a"}, MAX_WIDTH),
        (10**6, {"fieldSelector": "metadata.name=,metadata.name=a"}, MAX_WIDTH),
        (10**6, {"watch": "1", "sendInitialEvents": "true"}, MAX_WIDTH),
    ],
)
def test_width_of_a_list_follows_the_objects(stored: int, query: dict[str, str], width: int) -> None:
    assert list_width(stored, query) == width


@pytest.mark.parametrize(("verb", "width"), [("list", 2), ("deletecollection", 2), ("get", 1), ("delete", 1)])
def test_width_of_a_collection_follows_its_objects(verb: str, width: int) -> None:
    pods = TABLE.of("pods")
    replica = SimpleNamespace(objects=range(101))
    http: Any = SimpleNamespace(query={}, rel_url=SimpleNamespace(raw_query_string=""))
    assert width_of(http, Target(pods, verb), {pods.store: cast(Replica, replica)}) == width


@pytest.mark.parametrize(
    ("headers", "width"),
    [
        ({}, 1),
        ({"Content-Length": "99999"}, 1),
        ({"Content-Length": "600000"}, 3),
        ({"Content-Length": "9" * 400}, MAX_WIDTH),
        ({"Content-Length": "nonsense"}, MAX_WIDTH),
        ({"Transfer-Encoding": "chunked"}, MAX_WIDTH),
    ],
)
def test_width_of_a_write_follows_its_body(headers: dict[str, str], width: int) -> None:
    assert body_width(headers) == width


class Lab:
    """Flow control without a connection."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.flows = FlowControl(FlowMetrics(self.registry))

    def enter(self, user: User, width: int = MAX_WIDTH) -> Ticket:
        return self.flows.enter(user, "pods", "default", width, 0.0)

    def waiting(self, ticket: Ticket, seconds: float = 15.0) -> "asyncio.Task[None]":
        async def wait() -> None:
            task = asyncio.current_task()
            assert task is not None
            await self.flows.wait(ticket, task, seconds)

        return asyncio.create_task(wait())

    def value(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(f"apiserver_flowcontrol_{name}", labels) or 0.0


DEFAULT = {"priority_level": "global-default", "flow_schema": "global-default"}


async def test_a_waiting_request_goes_on_when_one_before_it_is_answered() -> None:
    lab = Lab()
    first, second = lab.enter(ALICE), lab.enter(ALICE)
    waiting = lab.waiting(second)
    await asyncio.sleep(0)
    assert (first.state, second.state) == (State.EXECUTING, State.QUEUED)
    assert lab.value("current_inqueue_requests", **DEFAULT) == 1
    assert lab.value("current_executing_seats", **DEFAULT) == MAX_WIDTH
    lab.flows.leave(first)
    lab.flows.leave(first)
    await waiting
    assert lab.value("dispatched_requests_total", **DEFAULT) == 2
    assert lab.value("request_wait_duration_seconds_count", execute="true", **DEFAULT) == 2
    lab.flows.leave(second)
    assert lab.value("current_executing_requests", **DEFAULT) == 0
    assert b"nominal_limit_seats" in generate_latest(lab.registry)


@pytest.mark.parametrize(
    ("query", "seconds"),
    [("", 15.0), ("timeout=8s", 2.0), ("timeout=2h", 15.0), ("timeout=8s&watch=1", 15.0), ("timeout=soon", 15.0)],
)
def test_a_request_waits_a_quarter_of_its_deadline(query: str, seconds: float) -> None:
    assert wait_seconds(make_mocked_request("GET", f"/api/v1/pods?{query}")) == seconds


def test_time_in_a_queue_counts_against_the_deadline_of_a_request() -> None:
    call = Call(make_mocked_request("GET", "/api/v1/pods"))
    call.seconds, call.began = 8.0, call.began - 5.0
    assert 2.0 < call.left <= 3.0


async def test_a_request_that_waited_too_long_gets_429_and_frees_its_place() -> None:
    lab = Lab()
    lab.enter(ALICE)
    with pytest.raises(TooManyRequests) as caught:
        await lab.waiting(lab.enter(ALICE), 0.01)
    assert caught.value.retry_after == 1
    assert "too many requests, please try again later" in str(caught.value).lower()
    assert lab.value("rejected_requests_total", reason="time-out", **DEFAULT) == 1
    assert lab.value("current_inqueue_requests", **DEFAULT) == 0


async def test_a_client_that_leaves_while_it_waits_frees_its_place() -> None:
    lab = Lab()
    lab.enter(ALICE)
    waiting = lab.waiting(lab.enter(ALICE))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert lab.value("rejected_requests_total", reason="cancelled", **DEFAULT) == 1
    assert lab.value("current_inqueue_requests", **DEFAULT) == 0


async def test_a_watch_keeps_its_seats_until_its_initial_events_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty watches of one user, each with all objects, took as much of the loop as they wanted."""
    monkeypatch.setattr(unread, "SEAT_S", 3600.0)
    lab, started = Lab(), list[Iterator[bytes]]()
    seats = Seats(lab.flows, LongRunning(), StalledRequests(Path("none")), {})
    routes = SimpleNamespace(known=lambda http: None, guess=lambda http: None)

    not_begun = 1

    async def watch(parts: int) -> None:
        http = cast(web.BaseRequest, SimpleNamespace(rel_url=SimpleNamespace(raw_path="/")))
        assert seats.take(http, ALICE, cast(Routes, routes), time.monotonic()) is None
        events = unread.seated(iter([b""] * parts), unread.give_back.get())
        if parts != not_begun:
            next(events, None)
        unread.keep.get()()
        started.append(events)

    async def executing() -> float:
        await asyncio.sleep(0)
        return lab.value("current_executing_requests", **DEFAULT)

    for parts in (not_begun, 0, 2, 2):
        await asyncio.create_task(watch(parts))
    assert await executing() == 3, "the one without events has ended"
    del started[0]
    assert await executing() == 2, "the client is gone before its first event"
    assert list(started[1]) == [b""]
    assert await executing() == 1, "all is written"
    del started[2]
    assert await executing() == 0, "the client is gone"
    monkeypatch.setattr(unread, "SEAT_S", 0.01)
    await asyncio.create_task(watch(2))
    await until_async("the seats of one that reads nothing", executing, good=lambda seats: seats == 0)


def test_a_full_queue_gives_429_to_its_user_alone() -> None:
    lab = Lab()
    for _ in range(1 + FLOW_QUEUE):
        lab.enter(ALICE)
    with pytest.raises(TooManyRequests):
        lab.enter(ALICE)
    assert lab.enter(BOB, 1).state is State.EXECUTING
    assert lab.enter(SCHEDULER, 1).state is State.EXECUTING
    assert lab.value("rejected_requests_total", reason="queue-full", **DEFAULT) == 1


def test_health_checks_are_exempt() -> None:
    lab = Lab()
    tickets = [lab.flows.enter_path(User("system:anonymous"), "/livez/ping", 0.0) for _ in range(200)]
    assert {ticket.state for ticket in tickets} == {State.EXECUTING}


def test_a_user_cannot_hold_more_than_a_share_of_the_descriptors() -> None:
    long_running = LongRunning(most=4)
    ends = [long_running.begin(ALICE, 2), long_running.begin(ALICE, 2)]
    with pytest.raises(TooManyRequests):
        long_running.check(ALICE, 1)
    for user in (BOB, ADMIN, SCHEDULER):
        long_running.check(user, 2)
    for end in ends:
        end()
    long_running.check(ALICE, 4)


def test_users_of_the_plane_hold_as_many_watches_as_they_need() -> None:
    long_running = LongRunning(most=1)
    for _ in range(5):
        long_running.begin(SCHEDULER, 1)
    long_running.check(SCHEDULER, 1)
