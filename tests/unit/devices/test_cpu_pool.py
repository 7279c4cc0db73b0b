"""The static CPU policy: nobody shares what is exclusive, and what is taken lies together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.devices.cpu.assignment import best_split, take_distributed, take_packed
from actors.devices.cpu.pool import CpuPool, pod_need, reserve_cpus
from actors.devices.cpu.topology import NOTHING, CpuOptions, CpuPlace, CpuRequest, CpuTopology, cpu_hints
from actors.devices.model.errors import NotEnoughCpus, SmtAlignment
from actors.devices.topology.hints import Hint, mask_of, masks_over, nodes_of

ANY = Hint(None, False)


def machine(sockets: int = 1, nodes: int = 1, cores: int = 4, threads: int = 2) -> CpuTopology:
    """`nodes` of each socket, `cores` of each node; second threads are numbered after all first ones."""
    total = sockets * nodes * cores
    places = {}
    for cpu in range(total * threads):
        core = cpu % total
        node = core // cores
        places[cpu] = CpuPlace(core=core, socket=node // nodes, node=node, cache=node * cores)
    return CpuTopology(places)


EIGHT = machine()
DUAL = machine(sockets=2, cores=4)
PLAIN = CpuOptions()


def pool(topology: CpuTopology = EIGHT, reserved: frozenset[int] | set[int] = NOTHING, **options: bool) -> CpuPool:
    return CpuPool(topology, frozenset(reserved), CpuOptions(**options))


def test_reserved_are_the_low_cores_whole() -> None:
    assert reserve_cpus(EIGHT, frozenset(), 2000) == {0, 4}
    assert reserve_cpus(EIGHT, frozenset(), 1500) == {0, 4}
    assert reserve_cpus(EIGHT, frozenset({3}), 2000) == {3}


@pytest.mark.parametrize(
    ("free", "wanted", "taken"),
    [
        (range(8), 1, {0}),
        (range(8), 2, {0, 4}),
        (range(8), 3, {0, 4, 1}),
        ({1, 2, 3, 5, 6, 7}, 2, {1, 5}),
        ({1, 2, 3, 4, 5, 6, 7}, 1, {4}),  # its core is broken already
        (range(8), 8, set(range(8))),
    ],
)
def test_packed(free: set[int], wanted: int, taken: set[int]) -> None:
    assert take_packed(EIGHT, frozenset(free), wanted) == taken


def test_whole_sockets_go_first_and_then_the_fuller_socket() -> None:
    first = set(DUAL.in_nodes((0,)))
    assert take_packed(DUAL, DUAL.cpus, 8) == first
    assert take_packed(DUAL, DUAL.cpus - {8}, 8) == set(DUAL.in_nodes((1,)))
    assert take_packed(DUAL, DUAL.cpus - {0, 8}, 2) == {1, 9}, "the socket that is in use already"


def test_not_enough() -> None:
    with pytest.raises(NotEnoughCpus, match="requested=9, available=8"):
        take_packed(EIGHT, EIGHT.cpus, 9)


def test_spread_over_cores_and_over_nodes() -> None:
    assert take_packed(EIGHT, EIGHT.cpus, 4, spread=True) == {0, 1, 2, 3}
    assert take_packed(DUAL, DUAL.cpus - {8}, 5, spread=True) == {0, 1, 2, 3, 9}, "the socket in use goes first"
    assert take_distributed(DUAL, DUAL.cpus, 10, 2) == {0, 8, 1, 9, 2, 10, 4, 12, 5, 13}
    assert take_distributed(DUAL, DUAL.cpus, 8) == DUAL.in_nodes((0,)), "one node is enough"
    split = best_split({0: 6, 1: 6, 2: 6}, 10, 2)
    assert split is not None
    assert split.shares == {0: 6, 1: 4}


def test_by_cache_stays_below_one_cache() -> None:
    caches = machine(nodes=4, cores=2)
    flat = CpuTopology({cpu: CpuPlace(place.core, 0, 0, place.cache) for cpu, place in caches.places.items()})
    taken = take_packed(flat, flat.cpus - {0}, 3, by_cache=True)
    assert len({flat.places[cpu].cache for cpu in taken}) == 1
    assert len(take_packed(flat, flat.cpus, 6, by_cache=True)) == 6


def test_aligned_first_and_the_rest_from_anywhere() -> None:
    found = pool(DUAL).take("u", "c", 10, Hint(0b10, False))
    assert set(DUAL.in_nodes((1,))) < found
    assert len(found) == 10


def test_by_socket_widens_a_node_to_its_socket() -> None:
    topology = machine(sockets=2, nodes=2, cores=2)
    found = pool(topology, by_socket=True).take("u", "c", 8, Hint(0b01, True))
    assert {topology.places[cpu].socket for cpu in found} == {0}
    hints = cpu_hints(topology, CpuRequest(4, topology.cpus), CpuOptions(by_socket=True))
    assert Hint(0b0011, True) in hints
    assert Hint(0b0101, False) in hints


def test_whole_cores_only() -> None:
    with pytest.raises(SmtAlignment, match="SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2"):
        pool(full_cores=True).take("u", "c", 3, ANY)
    strict = pool(reserved={0, 1}, full_cores=True)
    with pytest.raises(SmtAlignment, match="available physical CPUs = 4, requested CPUs = 6, CPUs per core = 2"):
        strict.take("u", "c", 6, ANY)
    assert strict.take("u", "c", 4, ANY) == {2, 3, 6, 7}
    assert strict.held["u"]["c"] == {2, 3, 6, 7}


def test_the_shared_pool_has_the_reserved_ones_unless_strict() -> None:
    for strict, shared in ((False, {0, 2, 3, 6, 7}), (True, {2, 3, 6, 7})):
        found = pool(reserved={0}, strict=strict)
        found.take("u", "c", 3, ANY)
        assert found.shared == shared - found.held["u"]["c"]
        assert 0 not in found.held["u"]["c"]
        found.release("u")
        assert found.shared == EIGHT.cpus - ({0} if strict else set())


def test_an_offline_cpu_stays_its_owners() -> None:
    found = pool()
    found.take("u", "c", 2, ANY)
    found.topology = CpuTopology({cpu: place for cpu, place in EIGHT.places.items() if cpu != 4})
    assert found.held["u"]["c"] == {0, 4}
    assert 4 not in found.shared | found.allocatable
    found.topology = EIGHT
    assert 4 not in found.shared
    assert 4 in found.allocatable


def test_adoption_never_makes_two_owners() -> None:
    found = pool()
    assert found.adopt("a", {"c": frozenset({1, 2})})
    assert not found.adopt("b", {"c": frozenset({2, 3})})
    assert found.exclusive == {1, 2}


def test_a_pod_at_its_peak() -> None:
    assert pod_need([("init", 5), ("sidecar", 1), ("init", 3), ("app", 2), ("app", 1)]) == 5
    assert pod_need([("sidecar", 1), ("init", 5), ("app", 2)]) == 6
    assert pod_need([("init", 1), ("sidecar", 1), ("app", 4)]) == 5


machines = st.builds(
    machine, sockets=st.integers(1, 2), nodes=st.integers(1, 2), cores=st.integers(1, 3), threads=st.integers(1, 2)
)


@given(machines, st.data())
def test_a_take_is_as_many_as_wanted_of_what_is_free(topology: CpuTopology, data: st.DataObject) -> None:
    free = frozenset(data.draw(st.sets(st.sampled_from(sorted(topology.cpus)), min_size=1)))
    wanted = data.draw(st.integers(1, len(free)))
    flags = data.draw(st.tuples(st.booleans(), st.booleans()))
    for found in (take_packed(topology, free, wanted, *flags), take_distributed(topology, free, wanted)):
        assert len(found) == wanted
        assert found <= free


@given(machines, st.data())
def test_packing_takes_as_many_whole_cores_as_there_are(topology: CpuTopology, data: st.DataObject) -> None:
    free = frozenset(data.draw(st.sets(st.sampled_from(sorted(topology.cpus)), min_size=1)))
    wanted = data.draw(st.integers(1, len(free)))
    taken = whole_cores(topology, take_packed(topology, free, wanted))
    assert len(taken) >= min(len(whole_cores(topology, free)), wanted // topology.threads_per_core)


def whole_cores(topology: CpuTopology, cpus: frozenset[int]) -> set[int]:
    cores = {topology.places[cpu].core for cpu in cpus}
    return {core for core in cores if topology.siblings([core]) <= cpus}


@given(machines, st.data())
def test_hints_are_just_the_sets_of_nodes_with_room(topology: CpuTopology, data: st.DataObject) -> None:
    free = frozenset(data.draw(st.sets(st.sampled_from(sorted(topology.cpus)))))
    need = data.draw(st.integers(1, len(topology.cpus)))
    hints = cpu_hints(topology, CpuRequest(need, free), PLAIN)
    everything = list(masks_over(topology.nodes))
    assert [hint.mask for hint in hints] == [m for m in everything if room(topology, m, free) >= need]
    least = min(mask.bit_count() for mask in everything if room(topology, mask, topology.cpus) >= need)
    assert all(hint.preferred == (hint.mask is not None and hint.mask.bit_count() == least) for hint in hints)


def room(topology: CpuTopology, mask: int, free: frozenset[int]) -> int:
    return len(topology.in_nodes(nodes_of(mask)) & free)


steps = st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 4), st.integers(0, 3)), max_size=25)
options = st.builds(CpuOptions, *(st.booleans() for _ in range(6)))


@given(machines, options, steps)
def test_no_cpu_ever_has_two_owners(
    topology: CpuTopology, options: CpuOptions, steps: list[tuple[str, int, int]]
) -> None:
    reserved = take_packed(topology, topology.cpus, 1)
    found = CpuPool(topology, reserved, options)
    for uid, need, mask in steps:
        if need == 0 or uid in found.held:
            found.release(uid)
        else:
            try:
                taken = found.take(uid, "c", need, Hint(mask & mask_of(topology.nodes) or None, False))
                assert len(taken) == need
            except (NotEnoughCpus, SmtAlignment):
                assert uid not in found.held
        owned = [cpu for held in found.held.values() for cpus in held.values() for cpu in cpus]
        assert len(owned) == len(set(owned))
        assert not set(owned) & (reserved | found.shared)
        assert found.shared | set(owned) | reserved == topology.cpus


@given(machines, st.integers(1, 3), st.integers(1, 3))
def test_a_later_container_takes_over_what_an_init_container_had(topology: CpuTopology, one: int, two: int) -> None:
    found = CpuPool(topology, frozenset(), PLAIN)
    try:
        first = found.take("u", "init", one, ANY)
        second = found.take("u", "app", two, ANY, reusable=first)
    except NotEnoughCpus:
        assert max(one, two) > len(topology.cpus)
        return
    if two <= one:
        assert len(first | second) <= one + two
    assert found.exclusive == first | second
