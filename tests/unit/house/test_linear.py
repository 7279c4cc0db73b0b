"""The checker of histories: it takes what a correct store may answer, and refuses what only a broken one does."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.linear import Operation, linearizable, step

A, B, C = b"a", b"b", b"c"


def put(value: bytes, called: float, returned: float) -> Operation:
    return Operation("put", called, returned, value)


def get(seen: bytes | None, called: float, returned: float) -> Operation:
    return Operation("get", called, returned, seen=seen)


BAD = {
    "a read of what was never written": [put(A, 0, 1), get(B, 2, 3)],
    "a stale read": [put(A, 0, 1), put(B, 2, 3), get(A, 4, 5)],
    "an acknowledged write is lost": [put(A, 0, 1), get(None, 2, 3)],
    "a value is seen, then not yet": [put(A, 0, 1), put(B, 2, 9), get(B, 3, 4), get(A, 5, 6)],
    "a read of the future": [get(A, 0, 1), put(A, 2, 3)],
    "both of two exclusive writes": [
        put(A, 0, 1),
        Operation("cas", 2, 5, B, expected=A),
        Operation("cas", 3, 6, C, expected=A),
    ],
    "a refusal without a cause": [put(A, 0, 1), Operation("cas", 2, 3, B, expected=A, seen=A, ok=False)],
    "a deletion of nothing": [Operation("delete", 0, 1, seen=A)],
    "a deleted key is back": [put(A, 0, 1), Operation("delete", 2, 3, seen=A), get(A, 4, 5)],
    "a revoked lease leaves its key": [put(A, 0, 1), Operation("release", 2, 3, A), get(A, 4, 5)],
    "a lost write happens twice": [
        put(A, 0, 1),
        Operation("put", 2, value=B),
        get(B, 3, 4),
        put(C, 5, 6),
        get(B, 7, 8),
    ],
    "a lost write happens before its call": [put(A, 0, 1), get(B, 2, 3), Operation("put", 4, value=B)],
}
GOOD = {
    "a read beside a write sees either": [put(A, 0, 1), put(B, 2, 9), get(A, 3, 4), get(B, 5, 6)],
    "a lost write may have happened": [put(A, 0, 1), Operation("put", 2, value=B), get(B, 3, 4)],
    "a lost write may happen later": [put(A, 0, 1), Operation("put", 2, value=B), get(A, 3, 4), get(B, 5, 6)],
    "a lost write may never happen": [put(A, 0, 1), Operation("put", 2, value=B), get(A, 3, 4)],
    "a lost deletion": [put(A, 0, 1), Operation("delete", 2), get(A, 3, 4), get(None, 5, 6)],
    "one of two exclusive writes": [
        put(A, 0, 1),
        Operation("cas", 2, 5, B, expected=A),
        Operation("cas", 3, 6, C, expected=A, seen=B, ok=False),
    ],
    "a lost write only a deletion saw": [Operation("put", 0, value=A), Operation("delete", 1, 2, seen=A)],
    "a lost cas that was done": [put(A, 0, 1), Operation("cas", 2, value=B, expected=A), get(B, 3, 4)],
    "a lost write only the end of its lease undid": [
        put(A, 0, 1),
        Operation("put", 2, value=B),
        Operation("release", 3, 4, B),
        get(None, 5, 6),
    ],
    "a lost write another lost write needed": [
        put(A, 0, 1),
        Operation("put", 2, value=B),
        Operation("cas", 3, value=C, expected=B),
        get(C, 5, 6),
    ],
    "a revoked lease of an older value": [put(A, 0, 1), put(B, 2, 3), Operation("release", 4, 5, A), get(B, 6, 7)],
}


@pytest.mark.parametrize("name", BAD)
def test_refused(name: str) -> None:
    assert not linearizable(BAD[name])


@pytest.mark.parametrize("name", GOOD)
def test_accepted(name: str) -> None:
    assert linearizable(GOOD[name])


def noted(whole: Operation) -> Operation:
    """As a client notes it: what was not asked, and what no answer told, it does not know."""
    told = not whole.lost and (whole.kind in ("get", "delete") or (whole.kind == "cas" and not whole.ok))
    return replace(
        whole,
        value=None if whole.kind in ("get", "delete") else whole.value,
        expected=whole.expected if whole.kind == "cas" else None,
        seen=whole.seen if told else None,
    )


def simulate(seed: int, count: int, losses: float = 0.05) -> list[Operation]:
    """Operations that take effect one after another at their moment, called before it and returned after it."""
    chance, state, made = random.Random(seed), None, []
    written: list[bytes | None] = [None]
    for number in range(count):
        called, returned = number - 3 * chance.random(), number + 3 * chance.random()
        if chance.random() < losses:
            returned = float("inf")
        kind, value = chance.choice(["put", "get", "cas", "delete", "release"]), b"%d" % number
        expected = chance.choice([state, chance.choice(written)])
        value = expected or b"-" if kind == "release" else value
        done = kind != "cas" or state == expected
        operation = noted(Operation(kind, called, returned, value, expected, state, done))
        if not (operation.lost and chance.random() < 0.5):
            _, state = step(state, operation)
        made.append(operation)
        written.append(operation.value)
    return made


@given(st.integers(0, 10**6), st.integers(0, 200))
def test_whatever_a_correct_store_does_is_accepted(seed: int, count: int) -> None:
    assert linearizable(simulate(seed, count))


@given(st.integers(0, 10**6), st.integers(0, 30), st.floats(0.1, 0.6))
def test_also_when_many_answers_are_lost(seed: int, count: int, losses: float) -> None:
    assert linearizable(simulate(seed, count, losses))


@given(st.integers(0, 10**6))
def test_one_stale_answer_among_many_is_found(seed: int) -> None:
    history = simulate(seed, 100)
    end = 200.0
    tail = [put(b"x", end, end + 1), put(b"y", end + 2, end + 3), get(b"x", end + 4, end + 5)]
    assert not linearizable(history + tail)
