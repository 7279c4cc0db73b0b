"""Compare the traces of two pods: their steps side by side, and what took the longer one longer. Pure.

Steps are the same if they have the same name, process, parent and DISTINCT attributes, and the same place among those
that have. Compared is the start of both pods, or their whole traces if one of them holds no start.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from protocols.process.texts import printable
from protocols.trace import Row
from protocols.trace.waterfall import kind_of
from supervisor.base.terminal import Table
from supervisor.trace.draw import label, milliseconds
from supervisor.trace.slow import Gap, gap_name, gaps_of, leaves_of, start_of

DISTINCT = ("type", "resource", "driver", "phase")
"""Attributes that distinguish steps of one name; names of containers and objects differ between pods."""
GAP_NS = 10_000_000
"""A gap is listed if it is this much longer in one of the traces."""
ALIKE_NS = 1_000_000
"""A shorter difference of two starts is none."""
SHOWN_NS = 10_000
"""A shorter difference of two steps is not shown."""
HEADER = ("A", "B", "DIFFERENCE", "ACTOR", "STEP")

Key = tuple[object, ...]
"""Parent's key, name, actor, values of DISTINCT, and the place among those with the same."""


class Moment(msgspec.Struct, frozen=True):
    """A step's time from the beginning of its own trace."""

    start_ns: int
    duration_ns: int


class Pair(msgspec.Struct, frozen=True):
    """A step, or a gap before it, in both traces."""

    name: str
    actor: str
    """Empty of a gap, in which no process recorded a step."""
    depth: int
    text: str
    """Name with the attributes that distinguish it, safe to show."""
    a: Moment | None
    """None = the pod lacks it."""
    b: Moment | None
    difference_ns: int
    """Duration in B less that in A."""
    is_leaf: bool
    """Nothing below it was recorded; the difference of other steps is that of their parts."""


class Comparison(msgspec.Struct, frozen=True):
    """Two traces side by side; `a_ns` and `b_ns` are the compared durations."""

    a: str
    b: str
    of: str
    """`start` or `trace`."""
    a_ns: int
    b_ns: int
    summary: str
    largest: int | None
    """Position of the pair that made the longer one longer."""
    steps: list[Pair]


def compare(a: str, first: Sequence[Row], b: str, second: Sequence[Row]) -> Comparison:
    """Compare two traces, of which `a` and `b` are the names."""
    windows = start_of(first), start_of(second)
    starts = windows[0] is not None and windows[1] is not None
    of_a = (windows[0] if starts else None) or _whole(first)
    of_b = (windows[1] if starts else None) or _whole(second)
    pairs = _aligned(_Side(first, of_a), _Side(second, of_b))
    length_a, length_b = of_a[1] - of_a[0], of_b[1] - of_b[0]
    largest = _largest(pairs, length_b - length_a)
    summary = _summary("start" if starts else "trace", length_b - length_a, pairs, largest)
    return Comparison(a, b, "start" if starts else "trace", length_a, length_b, summary, largest, pairs)


def table(found: Comparison) -> Table:
    """Return the pairs in order of time, the largest difference marked."""
    return Table(HEADER, [_cells(pair, at == found.largest) for at, pair in enumerate(found.steps)])


class _Side:
    """One trace within its window, with steps and gaps by key."""

    def __init__(self, rows: Sequence[Row], window: tuple[int, int]) -> None:
        self._begin = window[0]
        self.rows = {key: row for key, row in _keyed(rows) if window[0] <= row.start_ns < window[1]}
        leaves = leaves_of(rows, window)
        self.leaves = {id(row) for row in leaves}
        keys = {id(row): key for key, row in self.rows.items()}
        self.gaps = {keys[id(gap.after)]: gap for gap in gaps_of(leaves, window[0])}

    def moment(self, key: Key) -> Moment | None:
        row = self.rows.get(key)
        return Moment(row.start_ns - self._begin, row.duration_ns) if row else None

    def gap(self, key: Key) -> Moment | None:
        gap = self.gaps.get(key)
        return Moment(gap.after.start_ns - gap.length_ns - self._begin, gap.length_ns) if gap else None


def _whole(rows: Sequence[Row]) -> tuple[int, int]:
    begin = min((row.start_ns for row in rows), default=0)
    return begin, max((row.start_ns + row.duration_ns for row in rows), default=begin) + 1


def _keyed(rows: Sequence[Row]) -> Iterator[tuple[Key, Row]]:
    """Yield each row with its key; a parent comes before its children."""
    above: list[Key] = []
    places: Counter[Key] = Counter()
    for row in rows:
        del above[row.depth :]
        parent = above[-1] if above else ()
        distinct = tuple(row.attributes.get(name, "") for name in DISTINCT)
        alike = (parent, row.name, kind_of(row.actor), distinct)
        above.append((*alike, places[alike]))
        places[alike] += 1
        yield above[-1], row


def _aligned(a: _Side, b: _Side) -> list[Pair]:
    """Return all pairs in A's order; a step that only B has stands behind the one that it follows in B."""
    pairs: list[Pair] = []
    for key in _merged(list(a.rows), list(b.rows)):
        moments = a.gap(key), b.gap(key)
        if abs(_difference(*moments)) >= GAP_NS:
            pairs.append(_gap_pair((b if _difference(*moments) > 0 else a).gaps[key], *moments))
        row = b.rows[key] if key in b.rows else a.rows[key]
        leaf = all(id(side.rows[key]) in side.leaves for side in (a, b) if key in side.rows)
        pairs.append(_pair(row, label(row), a.moment(key), b.moment(key), leaf))
    return pairs


def _merged(a: Sequence[Key], b: Sequence[Key]) -> Iterator[Key]:
    known, following = set(a), dict[Key | None, list[Key]]()
    last: Key | None = None
    for key in b:
        if key in known:
            last = key
        else:
            following.setdefault(last, []).append(key)
    yield from following.get(None, ())
    for key in a:
        yield key
        yield from following.get(key, ())


def _gap_pair(gap: Gap, a: Moment | None, b: Moment | None) -> Pair:
    row = msgspec.structs.replace(gap.after, name=gap_name(gap), actor="")
    return _pair(row, printable(row.name), a, b, True)


def _pair(row: Row, text: str, a: Moment | None, b: Moment | None, leaf: bool) -> Pair:
    return Pair(row.name, row.actor, row.depth, text, a, b, _difference(a, b), leaf)


def _difference(a: Moment | None, b: Moment | None) -> int:
    return (b.duration_ns if b else 0) - (a.duration_ns if a else 0)


def _largest(pairs: Sequence[Pair], total_ns: int) -> int | None:
    """Return the position of the leaf that differs most in the direction of the whole."""
    sign = -1 if total_ns < 0 else 1
    differences = {at: sign * pair.difference_ns for at, pair in enumerate(pairs) if pair.is_leaf}
    at = max(differences, key=lambda at: differences[at], default=None)
    return at if at is not None and differences[at] >= ALIKE_NS else None


def _summary(of: str, total_ns: int, pairs: Sequence[Pair], largest: int | None) -> str:
    length = milliseconds(abs(total_ns))
    if largest is None:
        return f"both {of}s took the same time, {length} apart{_missing(pairs)}"
    pair = pairs[largest]
    part = f"in {pair.text!r} of {printable(pair.actor)}" if pair.actor else pair.text
    reason = f"{milliseconds(abs(pair.difference_ns))} of it {part}"
    return f"{'A' if total_ns < 0 else 'B'} took {length} longer: {reason}{_missing(pairs)}"


def _missing(pairs: Sequence[Pair]) -> str:
    """Return the numbers of steps that one pod lacks, as the end of a sentence."""
    steps = [pair for pair in pairs if pair.actor]
    lacks = {"A": sum(pair.a is None for pair in steps), "B": sum(pair.b is None for pair in steps)}
    words = [f"{name} lacks {count} step{'s' * (count != 1)} of the other" for name, count in lacks.items() if count]
    return f"; {', '.join(words)}" if words else ""


def _cells(pair: Pair, largest: bool) -> tuple[str, ...]:
    sign = "-" if pair.difference_ns < 0 else "+"
    length = abs(pair.difference_ns)
    difference = f"{sign}{milliseconds(length)}" if length >= SHOWN_NS else ""
    text = "  " * pair.depth + pair.text + ("  <- largest" if largest else "")
    return _length(pair.a, pair), _length(pair.b, pair), difference, pair.actor, text


def _length(moment: Moment | None, pair: Pair) -> str:
    if moment is None:
        return "lacks it" if pair.actor else ""
    return milliseconds(moment.duration_ns) if moment.duration_ns else ""
