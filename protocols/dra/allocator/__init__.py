"""Structured allocation: choose devices of a node for the claims of a pod. Pure.

`Catalog` holds the patched slices and returns the pools that a node reaches; `Attempt` searches one node for all claims
of a pod; `allocation()` returns the AllocationResult for a claim's status. Names are those of upstream's allocator
(k8s.io/dynamic-resource-allocation/structured) where it has one.
"""

from protocols.dra.allocator.attempt import Attempt, AttemptOptions
from protocols.dra.allocator.catalog import Catalog
from protocols.dra.allocator.claims import Claim, claim_of
from protocols.dra.allocator.plan import AllocatorInputs
from protocols.dra.allocator.result import allocation, first_available_score
from protocols.dra.allocator.shares import held_by_picks, held_by_results
from protocols.dra.allocator.types import (
    AllocatedState,
    AllocationEnded,
    AllocationFault,
    Amounts,
    DeviceInfo,
    Holdings,
    Node,
    NodeFault,
    Pick,
    SelectorFault,
    Selectors,
    TimedOut,
)

__all__ = [
    "AllocatedState",
    "AllocationEnded",
    "AllocationFault",
    "AllocatorInputs",
    "Amounts",
    "Attempt",
    "AttemptOptions",
    "Catalog",
    "Claim",
    "DeviceInfo",
    "Holdings",
    "Node",
    "NodeFault",
    "Pick",
    "SelectorFault",
    "Selectors",
    "TimedOut",
    "allocation",
    "claim_of",
    "first_available_score",
    "held_by_picks",
    "held_by_results",
]
