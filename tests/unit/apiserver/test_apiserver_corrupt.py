"""A replica beside values that are no objects: left out, named, and never a reason to fetch all anew."""

import pytest

from actors.apiserver.api.stored import corruption
from actors.apiserver.replica.replica import Replica
from actors.apiserver.replica.window import Change
from actors.apiserver.table import TABLE
from protocols.bus import Event, Op
from protocols.messages.objects import (
    ADDED,
    DELETED,
    DIGEST,
    DIGEST_MASK,
    FLOOR,
    FLOOR_KEY,
    MODIFIED,
    STORED,
    ObjectEvent,
    fingerprint,
)

GOOD = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}'
BAD = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":7}'
Held = dict[str, tuple[int, bytes]]


class Watched:
    def __init__(self) -> None:
        self.replica = Replica(TABLE.of("configmaps"))
        self.told: list[tuple[int, str, bool, bool]] = []
        self.fetches = 0
        self.replica.listen(self._on_change)
        self.replica.refetch = self._refetch

    def _on_change(self, change: Change) -> None:
        self.told.append((change.rv, change.key, change.before is not None, change.after is not None))

    def _refetch(self) -> None:
        self.fetches += 1

    def snapshot(self, held: Held, mark: int, floor: int) -> None:
        items = [(key, ObjectEvent(STORED, rv, raw)) for key, (rv, raw) in held.items()]
        self.replica.on_snapshot([*items, (FLOOR_KEY, ObjectEvent(FLOOR, floor, b""))], mark)

    def event(self, key: str, kind: str, rv: int, now: bytes, before: bytes = b"") -> None:
        op = Op.DELETE if kind == DELETED else Op.UPSERT
        self.replica.on_event(Event(op, key, ObjectEvent(kind, rv, now, before), mark=rv))

    def digest(self, held: Held) -> None:
        total = sum(fingerprint(key, rv, raw) for key, (rv, raw) in held.items()) & DIGEST_MASK
        self.event("", DIGEST, self.replica.mark, total.to_bytes(8, "big"))


def test_change_to_what_is_no_object_is_a_deletion_and_back_a_creation() -> None:
    watched = Watched()
    watched.snapshot({"d/a": (5, GOOD)}, 5, 5)
    watched.event("d/a", MODIFIED, 6, BAD, GOOD)
    assert watched.replica.objects.get("d/a") is None
    assert watched.replica.corrupt.below("d/") == ["/registry/configmaps/d/a"]
    watched.event("d/a", MODIFIED, 7, b"[]", BAD)
    watched.event("d/a", MODIFIED, 8, GOOD, b"[]")
    watched.event("d/b", ADDED, 9, BAD)
    watched.event("d/b", DELETED, 10, BAD, BAD)
    assert watched.told == [(6, "d/a", True, False), (8, "d/a", False, True)]
    assert (watched.replica.corrupt.below(""), watched.replica.mark) == ([], 10)


def test_state_with_corrupt_objects_is_no_contradiction() -> None:
    """Neither in a snapshot that comes again, nor in the digest of what is stored."""
    held = {"d/a": (5, GOOD), "d/bad": (6, BAD)}
    watched = Watched()
    watched.snapshot(held, 7, 7)
    watched.digest(held)
    watched.snapshot(held, 7, 7)
    watched.snapshot({**held, "d/new": (8, BAD)}, 9, 9)
    watched.digest({**held, "d/new": (8, BAD)})
    assert (watched.fetches, watched.replica.histories_replaced, watched.told) == (0, 0, [])


def test_corrupt_objects_of_a_store_that_went_back_are_forgotten() -> None:
    watched = Watched()
    watched.snapshot({"d/a": (5, GOOD), "d/bad": (6, BAD)}, 7, 7)
    watched.snapshot({"d/a": (3, BAD)}, 4, 4)
    assert watched.replica.corrupt.below("") == ["/registry/configmaps/d/a"]
    assert watched.told == [(4, "d/a", True, False)]


@pytest.mark.parametrize("floor", [5, 8])
def test_object_that_became_corrupt_meanwhile_is_deleted_and_named(floor: int) -> None:
    """With its history, and with none: neither is a store that contradicts itself."""
    watched = Watched()
    watched.snapshot({"d/a": (5, GOOD)}, 5, 5)
    items = [("d/a", ObjectEvent(STORED, 7, BAD)), (FLOOR_KEY, ObjectEvent(FLOOR, floor, b""))]
    history = [("@0/d/a", ObjectEvent(MODIFIED, 7, BAD, GOOD))] if floor < 7 else []
    watched.replica.on_snapshot([*items, *history], 8)
    assert [(key, after) for _, key, _, after in watched.told] == [("d/a", False)]
    assert watched.replica.corrupt.below("") == ["/registry/configmaps/d/a"]
    watched.digest({"d/a": (7, BAD)})
    assert (watched.fetches, watched.replica.histories_replaced) == (0, 0)


@pytest.mark.parametrize(
    ("raw", "custom", "told"),
    [
        (GOOD, False, ""),
        (GOOD[:-1] + b',"spec":[]}', True, ""),
        (GOOD[:-1] + b',"spec":"x"}', False, "spec is no object"),
        (GOOD[:-1] + b',"spec":"x"}', True, ""),
        (GOOD[:-1] + b',"x":"\xff"}', False, "utf-8"),
        (BAD, True, "metadata"),
        (b"", False, "truncated"),
    ],
)
def test_corruption_of_a_value(raw: bytes, custom: bool, told: str) -> None:
    found = corruption(raw, custom)
    assert told in found if told else found == ""
