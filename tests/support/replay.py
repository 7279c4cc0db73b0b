"""All events of a store, replayed, against what its clients were told. Pure."""

from collections import defaultdict

from protocols.wire import mvcc_pb2
from tests.support.linear import State
from tests.support.store_clients import PAIR, Told


class Replay:
    """The state at every revision, from the events since the first."""

    def __init__(self, events: list[mvcc_pb2.Event]) -> None:
        """Raises AssertionError where the events themselves do not make sense."""
        self._values: dict[bytes, list[tuple[int, State]]] = defaultdict(list)
        self.writes: dict[int, dict[bytes, State]] = defaultdict(dict)
        latest: dict[bytes, mvcc_pb2.KeyValue] = {}
        last = 0
        for event in events:
            kv = event.kv
            assert kv.mod_revision >= last, "events out of order"
            last = kv.mod_revision
            assert kv.key not in self.writes[last], "an event twice"
            self._check(event, latest.get(kv.key))
            value = None if event.type == mvcc_pb2.Event.DELETE else kv.value
            self.writes[last][kv.key] = value
            self._values[kv.key].append((last, value))
            if value is None:
                latest.pop(kv.key)
            else:
                latest[kv.key] = kv

    def _check(self, event: mvcc_pb2.Event, before: mvcc_pb2.KeyValue | None) -> None:
        assert (before is not None) == event.HasField("prev_kv"), f"an event is missing before {event}"
        assert before is None or before == event.prev_kv, f"an event is missing before {event}"
        if event.type == mvcc_pb2.Event.PUT:
            made = (before.create_revision, before.version + 1) if before else (event.kv.mod_revision, 1)
            assert (event.kv.create_revision, event.kv.version) == made
        else:
            assert before is not None, "a deletion of nothing"

    def at(self, key: bytes, revision: int) -> State:
        past = [value for when, value in self._values[key] if when <= revision]
        return past[-1] if past else None


def check_told(replay: Replay, told: list[Told]) -> None:
    """Each answer is what the store held at its revision; each write is there; revisions follow the clock."""
    for each in told:
        for key, value in each.values.items():
            assert replay.at(key, each.revision) == value, f"told {each}, but it was {replay.at(key, each.revision)!r}"
            assert not each.write or key in replay.writes[each.revision], f"an acknowledged write is lost: {each}"
    check_real_time(told)


def check_real_time(told: list[Told]) -> None:
    """Who was called after another had returned, saw at least its revision; a write made a later one."""
    reached = 0
    by_return = sorted(told, key=lambda each: each.returned)
    waiting = iter(by_return)
    following = next(waiting, None)
    for each in sorted(told, key=lambda each: each.called):
        while following is not None and following.returned < each.called:
            reached = max(reached, following.revision)
            following = next(waiting, None)
        assert each.revision >= reached + each.write, f"{each} is before revision {reached}, which was told earlier"


def check_pairs(replay: Replay) -> None:
    """A transaction of two keys is never half there."""
    for revision, writes in replay.writes.items():
        sides = [writes.get(key) for key in PAIR]
        assert sides[0] == sides[1], f"half a transaction at revision {revision}"
