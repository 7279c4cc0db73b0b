"""The simulation's promise that no device is allocated to two claims, and what a restored backup changes about it."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.simulation.plane.oracle import _given_once


def claim(device: str) -> bytes:
    results = [{"driver": "d", "pool": "p", "device": device}] if device else []
    return msgspec.json.encode({"status": {"allocation": {"devices": {"results": results}}}})


@pytest.mark.parametrize(
    ("commits", "unsettled", "found"),
    [
        ([("a", "x"), ("b", "y")], (), 0),
        ([("a", "x"), ("b", "x"), ("b", "")], (), 1),
        ([("a", "x"), ("b", "x"), ("b", "")], (2,), 0),
        ([("a", "x"), ("b", "x")], (2,), 2),
    ],
)
def test_a_device_is_one_claims_and_in_the_end_so_after_a_restore(
    commits: list[tuple[str, str]], unsettled: tuple[int, ...], found: int
) -> None:
    keys = [(number, f"/registry/resourceclaims/{key}".encode()) for number, (key, _) in enumerate(commits, 1)]
    committed = {key: claim(device) for key, (_, device) in zip(keys, commits, strict=True)}
    history: Any = SimpleNamespace(committed=committed, unsettled=set(unsettled))
    assert len(list(_given_once(history))) == found
