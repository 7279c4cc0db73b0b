"""The CEL worker: who is blamed, whose turn it is, what an evaluator may do, and how pure code asks."""

import asyncio
import ctypes
import errno
import logging
import math
import os
import signal
import socket
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest

from actors.cel.evaluators import (
    DEATHS,
    FIRST_PAUSE_S,
    FORGIVEN_S,
    LONGEST_PAUSE_S,
    QUARANTINED,
    QUEUED_PER_OWNER,
    READY,
    Death,
    EvaluatorDied,
    Evaluators,
    Quarantine,
    Turns,
)
from actors.scheduler.claims.device_fit import DeviceFit, SearchTakesLong
from actors.scheduler.model.claim_demand import Demand
from actors.scheduler.model.views import NodeView
from protocols.bus import ResourceExhausted
from protocols.cel.programs import SelectorProgram, compiled
from protocols.cel.text.source import CompileError
from protocols.cel.worker import asking, client, sandbox
from protocols.cel.worker.asking import NotAnswered, Process, answer
from protocols.cel.worker.forked import ForkedSelections
from protocols.cel.worker.loading import ANY_SCOPE, load
from protocols.cel.worker.local import Engine, wire_of
from protocols.cel.worker.messages import (
    Answer,
    CheckPolicy,
    CheckSelector,
    DriverDevices,
    Evaluated,
    EvaluatePolicy,
    EvaluationEnded,
    Expression,
    Forgotten,
    Question,
    Select,
    Selected,
    Undecided,
    Value,
    Work,
    WorkerFault,
    decode_answer,
    decode_question,
    encode,
)
from protocols.cel.worker.selections import Selections, SelectorPending
from protocols.dra.types import Attribute, Device
from protocols.process.proc import STATE, stat_fields
from protocols.process.tasks import cancel
from tests.support.waiting import until

OWNERS = 25
DEVICE = Device("d", {"a.example.com/n": Attribute("int", 1)}, {})
TRUE = 'device.driver == "a.example.com"'
FIRST, SECOND, THIRD = (f"['{word}'].exists(x, x + '.example.com' == device.driver)" for word in "abc")
"""Not simple: for the worker."""
CRASH, ENDLESS, GROWS, SLOW = (f"device.driver == '{word}'" for word in ("crash", "endless", "grows", "slow"))
"""Expressions of which the fixture `engine` makes what a fault of the engine would."""


def misbehaving(source: str) -> SelectorProgram:
    if source == CRASH:
        ctypes.string_at(0)
    while source == ENDLESS:
        pass
    if source == SLOW:
        time.sleep(0.3)
    if source == GROWS:
        bytearray(2 * sandbox.MEMORY)
    return compiled(source)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protocols.cel.worker.local.compiled", misbehaving)
    monkeypatch.setattr(sandbox, "CPU_S", 0.3)
    for module in ("actors.cel.evaluators", sandbox.__name__):  # a busy machine gives that much late
        monkeypatch.setattr(f"{module}.WALL_S", 60.0)


def select(source: str) -> bytes:
    return encode(Select(source, DriverDevices("a.example.com", (1,), {1: wire_of(DEVICE)})))


# quarantine and turns


def test_quarantine_pause_doubles_up_to_its_limit() -> None:
    table, now = Quarantine(), 0.0
    pauses = []
    for _ in range(12):
        entry = table.add("o", "e", "crashed", now)
        pauses.append(entry.pause)
        now = entry.until
    assert pauses[:3] == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S]
    assert pauses[-1] == LONGEST_PAUSE_S
    assert table.add("o", "e", "crashed", now + FORGIVEN_S + LONGEST_PAUSE_S).pause == FIRST_PAUSE_S


def test_quarantine_is_of_one_owner_and_ends() -> None:
    table = Quarantine()
    table.add("o", "e", "crashed the engine", 0.0)
    text, left = table.banned("o", 0.5)["e"]
    assert (text, left) == (
        "the expression was ended because it crashed the engine; it is not evaluated again for 1 s",
        0.5,
    )
    assert table.banned("other", 0.5) == {}
    assert table.banned("o", FIRST_PAUSE_S) == {}


def test_quarantine_is_bounded() -> None:
    table = Quarantine()
    for number in range(QUARANTINED + 10):
        table.add("o", str(number), "crashed", 0.0)
    assert len(table) == QUARANTINED


def test_turns_owners_alternate_one_work_each() -> None:
    turns: Turns[int] = Turns()
    for number in range(3):
        turns.add("greedy", number)
    turns.add("other", 9)
    assert [turns.next(), turns.next(), turns.next()] == [("greedy", 0), ("other", 9), None]
    turns.done("greedy")
    assert turns.next() == ("greedy", 1)


def test_turns_bound_each_owner() -> None:
    turns: Turns[int] = Turns()
    assert all(turns.add("greedy", number) for number in range(QUEUED_PER_OWNER))
    assert not turns.add("greedy", 0)
    assert turns.add("other", 0)


async def test_work_that_is_cancelled_while_it_waits_gives_its_owner_no_second_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[object] = []

    async def answered(evaluators: Evaluators, running: object, work: Work) -> object:
        begun.append(running)
        return await asyncio.Event().wait()

    monkeypatch.setattr(Evaluators, "_answered", answered)
    evaluators = Evaluators(logging.getLogger("test"), lambda death: None)
    evaluators._idle = [Mock(), Mock()]
    tasks = [asyncio.create_task(evaluators.run(Work((), "o"))) for _ in range(2)]
    await asyncio.sleep(0.01)
    await cancel(tasks.pop())
    tasks.append(asyncio.create_task(evaluators.run(Work((), "o"))))
    await asyncio.sleep(0.01)
    assert len(begun) == 1
    await cancel(*tasks)


async def test_work_whose_next_evaluator_cannot_be_forked_is_refused_and_more_are_forked_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Evaluators, "_forked", Mock(side_effect=BlockingIOError(errno.EAGAIN, "no process")))
    monkeypatch.setattr(Evaluators, "_buried", Mock(return_value=False))
    refill = Mock()
    monkeypatch.setattr(Evaluators, "refill", refill)
    evaluators = Evaluators(logging.getLogger("test"), lambda death: None)
    evaluators._idle = [Mock(send=Mock(side_effect=EvaluatorDied("the evaluator ended")))]
    with pytest.raises(ResourceExhausted, match="no evaluator can be forked: no process"):
        await evaluators.run(Work((TRUE.encode(),), "o"))
    await asyncio.sleep(0)
    refill.assert_called_once_with()


# evaluators: real processes


@asynccontextmanager
async def running() -> AsyncIterator[tuple[Evaluators, list[Death]]]:
    load()
    deaths: list[Death] = []
    evaluators = Evaluators(logging.getLogger("test"), deaths.append)
    evaluators.start()
    try:
        yield evaluators, deaths
    finally:
        evaluators.close()


async def answers(evaluators: Evaluators, *questions: bytes, owner: str = "") -> list[Answer]:
    return [decode_answer(each) for each in (await evaluators.run(Work(questions, owner))).answers]


@pytest.mark.parametrize(("source", "kind"), [(CRASH, "crash"), (ENDLESS, "cpu"), (GROWS, "memory")])
async def test_death_is_blamed_on_its_expression_and_the_rest_is_answered(
    engine: None, monkeypatch: pytest.MonkeyPatch, source: str, kind: str
) -> None:
    monkeypatch.setattr("actors.cel.evaluators.FIRST_PAUSE_S", 60.0)
    async with running() as (evaluators, deaths):
        before, ended, after = await answers(evaluators, select(TRUE), select(source), select(TRUE))
        assert (before, after) == (Selected((True,)), Selected((True,)))
        assert isinstance(ended, WorkerFault)
        assert ended.text.startswith(f"the expression was ended because it {deaths[0].reason}")
        assert [(death.kind, death.blamed) for death in deaths] == [(kind, source)]
        (again,) = await answers(evaluators, select(source))
        assert isinstance(again, WorkerFault)
        assert again.kind == "ended"
        assert len(deaths) == 1, "in quarantine it is not evaluated"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTRAP, signal.SIGSTOP])
async def test_evaluators_ended_from_outside_blame_nobody(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.cel.evaluators.WALL_S", 0.5)

    async with running() as (evaluators, deaths):
        evaluators.refill(DEATHS)
        for pid in evaluators.pids:
            os.kill(pid, number)
        until("they ended", lambda: {stat_fields(pid)[STATE] for pid in evaluators.pids} <= {b"Z", b"T"})
        assert await answers(evaluators, select(TRUE)) == [Selected((True,))]
        assert {death.blamed for death in deaths} == {""}
        assert len(evaluators.quarantine) == 0


async def test_work_whose_evaluators_others_end_again_and_again_is_answered(engine: None) -> None:
    async with running() as (evaluators, deaths):
        work = asyncio.create_task(answers(evaluators, select(SLOW)))
        while len(deaths) <= DEATHS and not work.done():
            for pid in evaluators.pids:
                os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(0.01)
        assert await work == [Selected((False,))]
        assert {death.blamed for death in deaths} == {""}


@pytest.mark.parametrize("where", ["protocols.cel.worker.evaluator.ANSWER", "actors.cel.evaluators.ANSWER"])
async def test_answer_without_end_is_an_error_of_its_work(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    monkeypatch.setattr(where, 60)

    async with running() as (evaluators, _deaths):
        wire = wire_of(DEVICE)
        large = encode(Select(TRUE, DriverDevices("a.example.com", tuple(range(200)), dict.fromkeys(range(200), wire))))
        (found,) = await answers(evaluators, large)
        assert isinstance(found, WorkerFault)
        assert await answers(evaluators, select(TRUE)) == [Selected((True,))]


async def test_many_owners_that_crash_evaluators_end_no_worker(engine: None) -> None:
    async with running() as (evaluators, deaths):
        attacks = [
            asyncio.create_task(answers(evaluators, select(CRASH), owner=f"o{number}")) for number in range(OWNERS)
        ]
        served = 0
        while not all(attack.done() for attack in attacks):
            served += await answers(evaluators, select(TRUE), owner="other") == [Selected((True,))]
        ended = [(await attack)[0] for attack in attacks]
        assert {each.kind for each in ended if isinstance(each, WorkerFault)} == {"ended"}
        assert {(death.kind, death.blamed) for death in deaths} == {("crash", CRASH)}
        assert len(ended) == OWNERS
        assert len(deaths) >= OWNERS, "one more where the pause of an expression passed before its owner's next try"
        assert served > 0


async def test_the_end_of_an_evaluator_hands_its_work_to_one_that_is_ready(engine: None) -> None:
    async with running() as (evaluators, _deaths):
        ready = set(evaluators.pids)
        await answers(evaluators, select(CRASH))
        left = ready & set(evaluators.pids)
        assert len(left) == READY - 1, "no fork comes before the answer"
        evaluators.trim()
        assert left < set(evaluators.pids)
        assert len(evaluators.pids) == READY


async def test_evaluator_that_ended_without_work_is_replaced() -> None:
    async with running() as (evaluators, _deaths):
        before = set(evaluators.pids)
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + 30
        while before & set(evaluators.pids) and time.monotonic() < end:
            await asyncio.sleep(0.01)
            evaluators.trim()
        assert len(set(evaluators.pids) - before) == READY


async def test_worker_without_memory_for_a_fork_serves_with_what_is_left(
    engine: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running() as (evaluators, _deaths):

        def refused() -> int:
            raise OSError(errno.EAGAIN, "no pids")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fork", refused)
            ended, after = await answers(evaluators, select(CRASH), select(TRUE))
            assert (isinstance(ended, WorkerFault), after) == (True, Selected((True,)))
            await asyncio.sleep(0)
        assert "evaluator cannot be forked" in caplog.text
        evaluators.trim()
        assert len(evaluators.pids) == READY


async def test_others_are_answered_while_one_takes_long(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "CPU_S", 60)
    async with running() as (evaluators, _deaths):
        long = asyncio.create_task(answers(evaluators, select(ENDLESS), owner="greedy"))
        await asyncio.sleep(0)
        assert await answers(evaluators, select(TRUE), owner="other") == [Selected((True,))]
        assert not long.done()
        long.cancel()
        await asyncio.gather(long, return_exceptions=True)


async def test_cancelled_work_leaves_no_answer_for_the_next(engine: None) -> None:
    async with running() as (evaluators, _deaths):
        work = asyncio.create_task(answers(evaluators, select(ENDLESS)))
        await asyncio.sleep(0.05)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        assert await answers(evaluators, select('device.driver == "b"')) == [Selected((False,))]


def locked_up(attempt: Callable[[], Any]) -> int:
    """Run an attempt in a sandbox; return the errno that it failed with, 0 if it did not."""
    parent = os.getpid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which the child does not use
        pid = os.fork()
    if pid == 0:
        code = 255
        try:
            sandbox.enter(parent)
            attempt()
            code = 0
        except OSError as error:
            code = error.errno or 254
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize(
    "attempt",
    [
        partial(open, "/etc/passwd"),
        partial(open, "/tmp/cel-worker-test", "w"),
        socket.socket,
        os.fork,
        partial(os.kill, os.getpid(), 0),
        partial(os.execv, "/bin/true", ["true"]),
        partial(os.unlink, "/tmp/cel-worker-test"),
        os.pipe,
    ],
    ids=["read", "write", "socket", "fork", "kill", "exec", "unlink", "pipe"],
)
def test_sandbox_refuses(attempt: Callable[[], Any]) -> None:
    assert locked_up(attempt) in (errno.EPERM, errno.EMFILE, errno.ENFILE)


def test_sandbox_bounds_memory() -> None:
    def grow() -> None:
        try:
            bytearray(2 * sandbox.MEMORY)
        except MemoryError:
            raise OSError(errno.ENOMEM, "no memory") from None

    assert locked_up(grow) == errno.ENOMEM


# answers


def test_engine_turns_whatever_is_raised_into_a_fault() -> None:
    found = Engine().answer(CheckSelector("[1].sortBy(v%1, 2) == []"))
    assert isinstance(found, WorkerFault)
    assert found.kind in ("compile", "too complex")


def test_engine_asks_for_devices_that_it_does_not_have() -> None:
    assert Engine().answer(Select(TRUE, DriverDevices("a.example.com", (7,)))) == Forgotten()


def test_engine_skips_what_a_false_condition_guards() -> None:
    expressions = (Expression("object.n == 2", ANY_SCOPE), Expression("object.n == 1", ANY_SCOPE))
    found = Engine().answer(EvaluatePolicy(expressions, {"object": {"n": 1}}, gates=1))
    assert isinstance(found, Evaluated)
    assert found.outcomes[0] == Value(False)
    assert not isinstance(found.outcomes[1], Value)


def test_conditions_have_a_budget_of_their_own() -> None:
    dear = "lists.range(9000).map(x, x).map(x, x).map(x, x).map(x, x).size() == 9000"
    units = 477_046

    def held(count: int, gates: int) -> int:
        question = EvaluatePolicy((Expression(dear, ANY_SCOPE),) * count, {}, gates, seconds=60)
        found = Engine().answer(question)
        assert isinstance(found, Evaluated)
        return sum(outcome == Value(True) for outcome in found.outcomes)

    within, all_within = 2_500_000 // units, 10_000_000 // units
    assert held(12, 12) == within + 1, "the one that spends the budget has its own result"
    assert held(25, 0) == all_within + 1
    assert held(within + all_within, within) == within + all_within, (
        "the policy's budget is whole behind its conditions"
    )


def test_engine_asks_back_for_decisions() -> None:
    check = "authorizer.group('').resource('pods').check('get').allowed()"
    question = EvaluatePolicy((Expression(check, ANY_SCOPE),), {})
    found = Engine().answer(question)
    assert isinstance(found, Undecided)
    assert len(found.asked) == 1
    decided = EvaluatePolicy(question.expressions, {}, decisions=((found.asked[0], True),))
    assert Engine().answer(decided) == Evaluated((Value(True),))


class Worker:
    """Answers in this process, and records what it was asked."""

    def __init__(self) -> None:
        self.engine, self.asked = Engine(), list[Question]()

    async def ask(self, questions: Sequence[bytes], owner: str = "") -> list[Answer]:
        from protocols.cel.worker.messages import decode_question

        self.asked += map(decode_question, questions)
        return [self.engine.answer(decode_question(question)) for question in questions]


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Worker:
    made = Worker()
    monkeypatch.setattr(client, "_client", made)
    monkeypatch.setattr(Process, "remote", True)
    monkeypatch.setattr(Process, "short", None)
    Process.checks.clear()
    return made


def test_settled_asks_for_all_that_one_pass_misses(worker: Worker) -> None:
    sources = [TRUE, "1 +", "object.x == 1"]
    passes = 0

    async def work() -> list[str]:
        nonlocal passes
        passes += 1
        faults = []
        for source in sources:
            try:
                answer(CheckPolicy(source, ANY_SCOPE, ("BOOL",)))
            except CompileError:
                faults.append(source)
        return faults

    assert "1 +" in asyncio.run(client.settled(work))
    assert (passes, len(worker.asked)) == (2, 3)
    asyncio.run(client.settled(work))
    assert len(worker.asked) == 3, "checks are kept"


def test_settled_drops_errors_of_a_pass_with_placeholders(worker: Worker) -> None:
    async def work() -> Answer:
        if (found := answer(CheckSelector(TRUE))) is None:
            raise ValueError("made of a placeholder")
        return found

    assert not isinstance(asyncio.run(client.settled(work)), WorkerFault)


def evaluated(source: str, value: object = 1) -> Callable[[], Awaitable[Answer]]:
    async def work() -> Answer:
        if (found := answer(EvaluatePolicy((Expression(source, ANY_SCOPE),), {"object": {"n": value}}))) is None:
            raise NotAnswered
        return found

    return work


def test_short_policy_is_evaluated_in_the_process_once_it_was_checked(worker: Worker) -> None:
    short, other = "[1].all(x, x == object.n)", "string(object.n).matches('^1$')"
    for source in (short, other, short, other):
        assert asyncio.run(client.settled(evaluated(source))) == Evaluated((Value(True),))
    asked = [each.expressions[0].source for each in worker.asked if isinstance(each, EvaluatePolicy)]
    assert asked == [short, other, other]


@pytest.mark.parametrize("source", ["object.n == object.n", "object.n.all(x, x == 1)"])
def test_short_policy_over_a_large_object_is_left_to_the_worker(worker: Worker, source: str) -> None:
    for value, count in (([1] * 100, 1), ([1] * 1_000, 1), ([1] * 36_000, 2), ([1] * 100, 2)):
        assert asyncio.run(client.settled(evaluated(source, value))) == Evaluated((Value(True),))
        assert sum(isinstance(each, EvaluatePolicy) for each in worker.asked) == count


def test_policy_that_does_not_compile_is_a_fault_each_time(worker: Worker) -> None:
    for _ in range(2):
        found = asyncio.run(client.settled(evaluated("object.n ==")))
        assert isinstance(found, Evaluated)
        assert isinstance(found.outcomes[0], WorkerFault)


def test_question_outside_of_settled_never_reaches_the_engine(worker: Worker) -> None:
    with pytest.raises(NotAnswered):
        answer(CheckSelector(TRUE))


def test_ended_check_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    Process.checks.clear()
    question = CheckSelector(TRUE)
    asking.remember(encode(question), question, WorkerFault("ended", "crashed", 1.0))
    assert not Process.checks


def test_selections_are_found_once_and_sent_once(worker: Worker) -> None:
    selections = Selections(worker)  # type: ignore[arg-type]  # asks in this process
    with pytest.raises(SelectorPending):
        selections.result(FIRST, "a.example.com", DEVICE)

    async def find(*expressions: str) -> None:
        await selections.find(expressions, {"a.example.com": [DEVICE]})

    asyncio.run(find(FIRST))
    assert selections.result(FIRST, "a.example.com", DEVICE)
    asyncio.run(find(FIRST, SECOND))
    sent = [bool(each.devices.new) for each in worker.asked if isinstance(each, Select)]
    assert sent == [True, False]
    worker.engine = Engine()  # it starts anew and has no devices
    asyncio.run(find(THIRD))
    assert not selections.result(THIRD, "a.example.com", DEVICE)


def test_devices_of_earlier_searches_are_forgotten(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protocols.cel.worker.selections.KEPT", 3)
    selections = Selections(worker)  # type: ignore[arg-type]  # asks in this process
    searches = [[Device(f"d{number}", {}, {}) for number in range(2)] for _ in range(3)]
    for members in searches:
        asyncio.run(selections.find([FIRST], {"a.example.com": [DEVICE, *members]}))
    assert all(selections.result(FIRST, "a.example.com", member) for member in (DEVICE, *searches[-1]))
    for gone in (*searches[0], *searches[1]):
        with pytest.raises(SelectorPending):
            selections.result(FIRST, "a.example.com", gone)


def test_a_device_is_sent_once_whatever_it_comes_with(worker: Worker) -> None:
    selections = Selections(worker)  # type: ignore[arg-type]  # asks in this process
    devices = [Device(f"d{number}", {"a.example.com/n": Attribute("int", number)}, {}) for number in range(2500)]

    def found(expression: str, members: Sequence[Device]) -> int:
        worker.asked.clear()
        asyncio.run(selections.find([expression], {"a.example.com": members}))
        assert all(selections.result(expression, "a.example.com", member) for member in members)
        return sum(len(each.devices.new) for each in worker.asked if isinstance(each, Select))

    odd, all_but = (f"{FIRST} && device.attributes['a.example.com'].n != {number}" for number in (-1, -2))
    assert found(odd, devices) == 2500
    changed = Device("d7", {"a.example.com/n": Attribute("int", 8)}, {})
    assert found(all_but, [changed, *devices[3:]]) == 1
    worker.engine = Engine()
    assert found(FIRST, devices[:1500]) == 1500


def test_simple_selector_is_evaluated_in_the_process(worker: Worker) -> None:
    selections = Selections(worker)  # type: ignore[arg-type]  # asks in this process
    asyncio.run(selections.find([TRUE], {"a.example.com": [DEVICE]}))
    assert worker.asked == [CheckSelector(TRUE)]
    assert selections.result(TRUE, "a.example.com", DEVICE)
    assert not selections.result(TRUE, "b.example.com", DEVICE)


def test_ended_selector_is_asked_again_after_its_pause(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    selections = Selections(worker)  # type: ignore[arg-type]  # asks in this process
    monkeypatch.setattr(worker.engine, "answer", lambda question: WorkerFault("ended", "crashed", 1.0))
    asyncio.run(selections.find([TRUE], {"a.example.com": [DEVICE]}))
    with pytest.raises(EvaluationEnded):
        selections.result(TRUE, "a.example.com", DEVICE)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 2)
    with pytest.raises(SelectorPending):
        selections.result(TRUE, "a.example.com", DEVICE)


def test_command_survives_a_selector(engine: None) -> None:
    forked = ForkedSelections()
    try:
        assert forked.result(TRUE, "a.example.com", DEVICE)
        with pytest.raises(EvaluationEnded, match="SIGPROF"):
            forked.result(ENDLESS, "a.example.com", DEVICE)
        assert forked.result(TRUE, "a.example.com", DEVICE)
    finally:
        forked.close()


def test_scheduling_cycle_leaves_slow_selectors_to_a_background_search(monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(*_: object) -> None:
        await asyncio.sleep(30)

    def pending(*_: object) -> None:
        raise SelectorPending(TRUE, "a.example.com", DEVICE)

    monkeypatch.setattr(DeviceFit, "_searched", pending)
    monkeypatch.setattr(DeviceFit, "_find", slow)
    monkeypatch.setattr(DeviceFit, "_state", lambda *_: (None, 0, 0))
    fit, node = DeviceFit.__new__(DeviceFit), NodeView("n", {}, (), {}, None, False)
    with pytest.raises(SearchTakesLong) as left:
        asyncio.run(fit._search_at_once(Demand(), node, [node], time.monotonic() + 60))
    assert left.value.deep


def test_integers_beyond_64_bits_are_sent_as_floats() -> None:
    expression = Expression("object.a > 1.0", (False, True, ()))
    sent = encode(EvaluatePolicy((expression,), {"object": {"a": [2**70, -(10**400), 1, True, "x"]}}, 0, 1.0, ()))
    question = decode_question(sent)
    assert isinstance(question, EvaluatePolicy)
    assert question.data == {"object": {"a": [2.0**70, -math.inf, 1, True, "x"]}}
    assert question.expressions == (expression,)
