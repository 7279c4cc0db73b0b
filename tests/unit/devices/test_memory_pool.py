"""The static memory policy: no node gives more than it has, and groups of nodes are not broken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.devices.memory.nodes import Blocks, NodeMemory, empty_node, memory_hints
from actors.devices.memory.pool import MemoryPool, ReusableMemory
from actors.devices.model.errors import NoMemory
from actors.devices.topology.hints import Hint, masks_over, nodes_of
from protocols.messages.devices import AllocatedMemory

ANY = Hint(None, False)


def nodes(*sizes: int, huge: int = 0) -> dict[int, NodeMemory]:
    totals = {"hugepages-2Mi": huge} if huge else {}
    return {node: empty_node(node, {"memory": size, **totals}, {}) for node, size in enumerate(sizes)}


def take(pool: MemoryPool, uid: str, hint: Hint = ANY, **request: int) -> Blocks:
    return pool.take(uid, "c", {kind.replace("_", "-"): size for kind, size in request.items()}, hint, ReusableMemory())


def test_a_nodes_memory_is_what_is_neither_reserved_nor_huge() -> None:
    node = empty_node(0, {"memory": 100, "hugepages-2Mi": 30}, {"memory": 10, "hugepages-2Mi": 5})
    assert (node.tables["memory"].allocatable, node.tables["hugepages-2Mi"].allocatable) == (60, 25)
    assert MemoryPool({0: node}).allocatable == (
        AllocatedMemory("hugepages-2Mi", 25, (0,)),
        AllocatedMemory("memory", 60, (0,)),
    )


def test_allocatable_leaves_out_types_of_which_a_node_has_none() -> None:
    node = empty_node(0, {"memory": 100, "hugepages-1Gi": 0, "hugepages-2Mi": 5}, {"hugepages-2Mi": 5})
    assert MemoryPool({0: node}).allocatable == (AllocatedMemory("memory", 95, (0,)),)


def test_one_node_if_one_will_do_else_a_group() -> None:
    pool = MemoryPool(nodes(10, 10))
    assert take(pool, "a", memory=6) == (AllocatedMemory("memory", 6, (0,)),)
    assert take(pool, "b", memory=6) == (AllocatedMemory("memory", 6, (1,)),)
    with pytest.raises(NoMemory, match=r"\[memorymanager\] failed to get the default NUMA affinity"):
        take(pool, "c", memory=12)
    pool.release("a")
    pool.release("b")
    assert take(pool, "c", memory=12)[0].numa == (0, 1)
    assert pool.nodes[0].group == pool.nodes[1].group == (0, 1)


def test_a_group_serves_no_single_requests_and_no_other_groups() -> None:
    pool = MemoryPool(nodes(10, 10, 10))
    take(pool, "g", Hint(0b011, True), memory=12)
    assert take(pool, "one", memory=5)[0].numa == (2,)
    with pytest.raises(NoMemory):
        take(pool, "x", memory=9)
    with pytest.raises(NoMemory, match="preferred hint violates NUMA node allocation"):
        take(pool, "y", Hint(0b010, True), memory=2)
    assert take(pool, "same", Hint(0b011, True), memory=4)[0].numa == (0, 1)


def test_a_hint_too_small_is_widened_but_not_against_a_promise() -> None:
    pool = MemoryPool(nodes(10, 10))
    assert take(pool, "a", Hint(0b01, False), memory=15)[0].numa == (0, 1)
    pool = MemoryPool(nodes(10, 10))
    take(pool, "b", Hint(0b01, True), memory=8)
    with pytest.raises(NoMemory, match="failed to find NUMA nodes to extend"):
        take(pool, "c", Hint(0b01, True), memory=5)


def test_memory_and_huge_pages_lie_together() -> None:
    pool = MemoryPool(nodes(20, 20, huge=8))
    found = take(pool, "a", memory=5, hugepages_2Mi=6)
    assert {block.numa for block in found} == {(0,)}
    found = take(pool, "b", memory=1, hugepages_2Mi=6)
    assert {block.numa for block in found} == {(1,)}


def test_init_containers_pass_their_memory_on() -> None:
    pool, reuse = MemoryPool(nodes(10)), ReusableMemory()
    for name, kind, size in (("i1", "init", 8), ("i2", "init", 10), ("side", "sidecar", 3), ("app", "app", 7)):
        reuse.took(name, kind, pool.take("u", name, {"memory": size}, ANY, reuse))
        assert pool.nodes[0].tables["memory"].reserved == {"i1": 8, "i2": 10, "side": 10, "app": 10}[name]
    assert [block.size for blocks in pool.held["u"].values() for block in blocks] == [0, 0, 3, 7]
    with pytest.raises(NoMemory):
        pool.take("u", "more", {"memory": 1}, ANY, reuse)


def test_adopted_memory_must_be_there() -> None:
    pool = MemoryPool(nodes(10))
    assert pool.adopt("a", {"c": (AllocatedMemory("memory", 6, (0,)),)})
    assert not pool.adopt("b", {"c": (AllocatedMemory("memory", 6, (0,)),)})
    assert not pool.adopt("c", {"c": (AllocatedMemory("memory", 1, (7,)),)})
    assert list(pool.held) == ["a"]


sizes = st.lists(st.integers(1, 12), min_size=1, max_size=3)
requests = st.dictionaries(st.sampled_from(["memory", "hugepages-2Mi"]), st.integers(1, 14), min_size=1)
steps = st.lists(st.tuples(st.sampled_from("abcd"), requests, st.integers(0, 7), st.booleans()), max_size=20)


@given(sizes, st.integers(0, 8), steps)
def test_no_node_ever_gives_more_than_it_has(
    given_sizes: list[int], huge: int, steps: list[tuple[str, dict[str, int], int, bool]]
) -> None:
    empty = nodes(*given_sizes, huge=huge)
    pool = MemoryPool(empty)
    everything = (1 << len(empty)) - 1
    for uid, request, mask, preferred in steps:
        if uid in pool.held:
            pool.release(uid)
        else:
            try:
                pool.take(uid, "c", request, Hint(mask & everything or None, preferred), ReusableMemory())
            except NoMemory:
                assert uid not in pool.held
        check(pool)
    for uid in list(pool.held):
        pool.release(uid)
    assert pool.nodes == empty


def check(pool: MemoryPool) -> None:
    blocks = [block for held in pool.held.values() for found in held.values() for block in found]
    for kind in ("memory", "hugepages-2Mi"):
        tables = [node.tables[kind] for node in pool.nodes.values() if kind in node.tables]
        assert all(table.free >= 0 and table.free + table.reserved == table.allocatable for table in tables)
        assert sum(table.reserved for table in tables) == sum(block.size for block in blocks if block.type == kind)
    groups = {tuple(block.numa) for block in blocks}
    assert sum(len(group) for group in groups) == len({node for group in groups for node in group})


@given(sizes, requests)
def test_hints_of_an_empty_machine_are_just_the_sets_that_are_large_enough(
    given_sizes: list[int], request: dict[str, int]
) -> None:
    empty = nodes(*given_sizes, huge=6)
    fits = [
        mask
        for mask in masks_over(empty)
        if all(
            sum(empty[node].tables[kind].allocatable for node in nodes_of(mask)) >= size
            for kind, size in request.items()
        )
    ]
    hints = memory_hints(empty, request, lambda mask, kind: 0)
    assert [hint.mask for hint in hints] == fits
    fewest = min((mask.bit_count() for mask in fits), default=0)
    assert [hint.preferred for hint in hints] == [mask.bit_count() == fewest for mask in fits]
