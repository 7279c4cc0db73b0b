"""Structured allocation: which devices a node can give to a pod's claims. Pure.

`Catalog` holds the slices as patched and says what a node sees; `Attempt` searches one node for all claims of a pod;
`allocation()` is what is written to a claim's status.
"""

from protocols.dra.allocator.attempt import Attempt, AttemptOptions
from protocols.dra.allocator.catalog import Catalog
from protocols.dra.allocator.claims import Claim, claim_of
from protocols.dra.allocator.plan import AllocatorInputs
from protocols.dra.allocator.result import allocation, first_available_score
from protocols.dra.allocator.shares import held_by_picks, held_by_results
from protocols.dra.allocator.types import (
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
    Usage,
)

__all__ = [
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
    "Usage",
    "allocation",
    "claim_of",
    "first_available_score",
    "held_by_picks",
    "held_by_results",
]
