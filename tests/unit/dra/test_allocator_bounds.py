"""A step of the search is short however many devices a node reaches: others share the event loop with it."""

from collections.abc import Callable
from typing import Any

import pytest

from protocols.dra.allocator import plan
from protocols.dra.allocator.attempt import STEPS, Attempt, AttemptOptions
from protocols.dra.allocator.candidates import SCANNED
from protocols.dra.allocator.catalog import Catalog
from protocols.dra.allocator.plan import AllocatorInputs
from protocols.dra.allocator.pruning import MAX_VALUES
from protocols.dra.allocator.shares import HeldDevices
from protocols.dra.allocator.types import AllocationFault, Node
from protocols.dra.decode import slice_of
from protocols.dra.types import Device
from protocols.kube.meta import Object
from tests.support.allocator_objects import ANY, DRIVER, Words, claim
from tests.support.growth import growth


def asking(selector: str = "", **fields: Any) -> Object:
    selectors = {"selectors": [{"cel": {"expression": selector}}]} if selector else {}
    return {"deviceClassName": "any", **selectors, **fields}


def attempt(devices: int, words: Words, *requests: Object, limit: int = STEPS, **more: Any) -> Attempt:
    """Return a search in one pool whose devices all differ in `uuid`."""
    catalog = Catalog()
    made = [{"name": f"d{at:06}", "attributes": {"uuid": {"string": f"{at}"}}} for at in range(devices)]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "allNodes": True, "devices": made}
    catalog.put(slice_of({"metadata": {"name": "s"}, "spec": spec}))
    pools = catalog.view(Node("n", {})).pools
    inputs = AllocatorInputs(pools, HeldDevices(), {"any": ANY}, words)
    return Attempt(AttemptOptions((claim(*requests, **more),), inputs, steps=limit))


UNLIKE, SAME = [{"distinctAttribute": f"{DRIVER}/uuid"}], [{"matchAttribute": f"{DRIVER}/uuid"}]
REQUESTS: dict[str, tuple[tuple[Object, ...], list[Object], bool]] = {
    "no device has it": ((asking("uuid=x"),), [], False),
    "all that have it": ((asking("uuid=40", allocationMode="All"),), [], True),
    "none that go together": ((asking(), asking("uuid=199")), SAME, False),
    "too few of the second": ((asking(), asking("uuid=7", count=2)), SAME, False),
    "all unlike": ((asking(count=2), asking("uuid=150")), UNLIKE, True),
}


@pytest.mark.parametrize("case", REQUESTS)
def test_step_judges_few_devices(case: str) -> None:
    requests, constraints, fits = REQUESTS[case]
    words = Words()
    search, answer = attempt(200, words, *requests, constraints=constraints), None
    while answer is None:
        before = len(words.asked)
        answer = search.advance(1)
        assert len(words.asked) - before <= 2 * SCANNED
    assert answer == fits


class Uuids(Words):
    def matches(self, expression: str, driver: str, device: Device) -> bool:
        return device.attributes[f"{DRIVER}/uuid"].value == expression


def steps(size: int) -> Callable[[], object]:
    """Return steps of a search that tries each device with the last one, of which none goes with it."""
    search = attempt(size, Uuids(), asking(), asking(f"{size - 1}"), asking("0"), constraints=SAME)
    search.advance(2 * size)
    return lambda: search.advance(1_000)


def test_steps_cost_the_same_in_larger_pools() -> None:
    assert growth(steps, 8_000) < 3


def test_devices_past_those_a_claim_can_have_are_only_counted() -> None:
    search = attempt(100, Words(), asking(allocationMode="All"))
    with pytest.raises(AllocationFault, match="number of requested devices 100 exceeds the claim limit of 32"):
        search.run()


def test_plans_of_claims_are_no_steps_of_their_search() -> None:
    search = attempt(200, Words(), asking("uuid=150", allocationMode="All"), limit=8)
    assert next(answer for answer in iter(lambda: search.advance(2), ...) if answer is not None)


def test_claims_with_too_many_requests_for_the_devices_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "MAX_JUDGMENTS", 300)
    with pytest.raises(AllocationFault, match="the claims have 2 requests, too many for a node with 200 devices"):
        attempt(200, Words(), asking(), asking()).run()
    assert attempt(150, Words(), asking(), asking()).run()


def test_enough_values_are_those_a_claim_can_take() -> None:
    """More are not counted; claims that need fewer values than there are find devices."""
    unlike = [{"distinctAttribute": f"{DRIVER}/uuid"}]
    assert attempt(MAX_VALUES * 2, Words(), asking(count=16), asking(count=16), constraints=unlike).run()
    assert not attempt(31, Words(), asking(count=16), asking(count=16), constraints=unlike).run()
