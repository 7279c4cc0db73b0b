"""When a process gives free memory back, and that it does."""

import gc
from pathlib import Path

import pytest

from protocols.actor.memory import RECLAIMABLE_BYTES, STEADY_BYTES, Heap, MemoryUsage, TrimPolicy

MIB = 1024 * 1024
START = MemoryUsage(100 * MIB, 40 * MIB)


def test_policy_growth_in_use_is_no_reason_to_trim() -> None:
    policy = TrimPolicy(START)
    assert not policy.due(MemoryUsage(300 * MIB, 240 * MIB))
    assert not policy.due(MemoryUsage(300 * MIB, 240 * MIB))


def test_policy_growth_that_was_freed_is_trimmed_once_the_process_is_steady() -> None:
    policy = TrimPolicy(START)
    assert not policy.due(MemoryUsage(300 * MIB, 50 * MIB)), "it still grows"
    assert policy.due(MemoryUsage(300 * MIB + STEADY_BYTES - 1, 50 * MIB))
    policy.trimmed(MemoryUsage(110 * MIB, 50 * MIB))
    assert not policy.due(MemoryUsage(110 * MIB, 50 * MIB))


def test_policy_memory_freed_after_a_trim_that_found_it_in_use_is_trimmed() -> None:
    policy = TrimPolicy(START)
    policy.trimmed(MemoryUsage(300 * MIB, 240 * MIB))
    assert policy.due(MemoryUsage(300 * MIB, 60 * MIB))


def test_policy_trim_that_gains_nothing_is_not_repeated() -> None:
    policy = TrimPolicy(START)
    grown = MemoryUsage(START.resident + 3 * RECLAIMABLE_BYTES, START.allocated)
    policy.due(grown)
    assert policy.due(grown)
    policy.trimmed(grown)
    assert not policy.due(grown)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux only")
def test_heap_usage_is_of_this_process() -> None:
    heap = Heap()
    if not heap.supported:
        pytest.skip("not glibc")
    gc.collect()
    heap.trim()  # or the memory of earlier tests is used again
    before = heap.usage()
    held = bytearray(64 * MIB)
    held[::4096] = b"x" * len(held[::4096])
    during = heap.usage()
    assert during.resident - before.resident > 32 * MIB
    assert during.allocated - before.allocated >= 64 * MIB
    del held
    gc.collect()
    heap.trim()
    assert heap.usage().allocated < during.allocated
