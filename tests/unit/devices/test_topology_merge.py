"""Merging hints: what it gives is what trying every combination gives."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from actors.devices.topology.hints import (
    DeviceRequest,
    Hint,
    NumaInfo,
    device_hints,
    mask_of,
    masks_over,
    nodes_of,
    sort_by_hint,
)
from actors.devices.topology.policy import BEST_EFFORT, RESTRICTED, SINGLE, HintOrder, decide, gather, merge

FOUR = NumaInfo((0, 1, 2, 3), {a: {b: 10 + 5 * abs(a - b) for b in range(4)} for a in range(4)})
TWO = NumaInfo((0, 1))


def by_hand(resources: list[list[Hint]], merging: HintOrder) -> Hint:
    """The rule as it is told: every combination, each compared with the best so far."""
    everything = merging.numa.everything
    best: Hint | None = None
    sizes = [[h.mask.bit_count() for h in hints if h.mask is not None] for hints in resources]
    aim = max((min(found) for found in sizes if found), default=0)
    for combination in product(*resources):
        masks = [hint.mask for hint in combination if hint.mask is not None]
        common = everything
        for mask in masks:
            common &= mask
        preferred = all(hint.preferred for hint in combination) and len(set(masks)) <= 1
        if common:
            best = better(best, Hint(common, preferred), aim, merging)
    return best or Hint(everything, False)


def better(best: Hint | None, other: Hint, aim: int, merging: HintOrder) -> Hint:
    if best is None or (other.preferred and not best.preferred):
        return other
    if best.preferred and not other.preferred:
        return best
    assert best.mask is not None
    assert other.mask is not None
    narrower = min(best, other, key=lambda hint: merging.key(hint.mask or 0))
    if best.preferred or best.mask.bit_count() > aim:
        return narrower
    size, had = other.mask.bit_count(), best.mask.bit_count()
    if had == aim:
        return narrower if size == had else best
    if size > aim or size < had:
        return best
    return other if size > had else narrower


hint = st.builds(Hint, st.one_of(st.none(), st.integers(1, 15)), st.booleans())
resources = st.lists(st.lists(hint, min_size=0, max_size=5), min_size=0, max_size=4)


@given(resources, st.booleans())
def test_it_finds_what_trying_everything_finds(hints: list[list[Hint]], closest: bool) -> None:
    merging = HintOrder(FOUR, closest)
    assert merge(hints, merging) == by_hand(hints, merging)


def test_who_has_no_opinion_is_content_and_who_sees_no_way_is_not() -> None:
    assert gather([None, {}, {"a": None, "b": []}]) == [
        [Hint(None, True)],
        [Hint(None, True)],
        [Hint(None, True)],
        [Hint(None, False)],
    ]


def test_policies() -> None:
    both = [{"cpu": [Hint(0b01, True), Hint(0b10, True), Hint(0b11, False)]}, {"gpu": [Hint(0b11, True)]}]
    merging = HintOrder(TWO)
    assert not decide(RESTRICTED, both, merging).admit
    assert not decide(SINGLE, both, merging).admit
    assert decide(BEST_EFFORT, both, merging).admit
    assert decide(SINGLE, [both[0]], merging).hint == Hint(0b01, True)
    assert decide(RESTRICTED, [both[1]], merging) == (Hint(0b11, True), True)
    assert decide(SINGLE, [None], merging) == (Hint(None, True), True)


def test_the_closest_of_equally_many_nodes() -> None:
    hints = [[Hint(0b1001, True), Hint(0b1100, True)]]
    assert merge(hints, HintOrder(FOUR)).mask == 0b1001
    assert merge(hints, HintOrder(FOUR, closest=True)).mask == 0b1100


devices = st.dictionaries(
    st.sampled_from([f"d{n}" for n in range(6)]),
    st.lists(st.integers(0, 3), max_size=2, unique=True).map(lambda found: tuple(sorted(found))),
    max_size=6,
)


@given(devices, st.integers(1, 4), st.data())
def test_device_hints_are_just_the_sets_that_can_hold_the_request(
    known: dict[str, tuple[int, ...]], need: int, data: st.DataObject
) -> None:
    free = data.draw(st.sets(st.sampled_from(sorted(known)))) if known else set()
    hints = device_hints(DeviceRequest(need, known, free), FOUR.nodes)
    if not any(known.values()):
        assert hints is None
        return
    assert hints is not None
    hosting = {node for nodes in known.values() for node in nodes}
    possible = [mask for mask in masks_over(hosting) if sum(1 for id in free if mask_of(known[id]) & mask) >= need]
    assert [found.mask for found in hints] == (possible if len(free) >= need else [])
    large = [mask for mask in masks_over(hosting) if sum(1 for own in known.values() if mask_of(own) & mask) >= need]
    least = min((mask.bit_count() for mask in large), default=len(hosting))
    assert all(found.preferred == (found.mask is not None and found.mask.bit_count() == least) for found in hints)


@given(devices, st.one_of(st.none(), st.integers(1, 15)))
def test_sorting_by_a_hint_loses_and_doubles_nothing(known: dict[str, tuple[int, ...]], mask: int | None) -> None:
    found = sort_by_hint(known, known, mask)
    assert sorted([*found.aligned, *found.unaligned, *found.indifferent]) == sorted(known)
    assert all(mask is not None and mask_of(known[id]) & mask for id in found.aligned)
    assert all(known[id] for id in found.unaligned)


def test_reused_devices_keep_a_hint_on_their_node() -> None:
    known = {"a": (0,), "b": (1,), "c": (1,)}
    hints = device_hints(DeviceRequest(1, known, {"b", "c"}, {"a"}), TWO.nodes)
    assert hints == [Hint(0b01, True), Hint(0b11, False)]
    assert nodes_of(0b101) == [0, 2]
