"""Why no device suits a pod, worked out beside scheduling: at once, later, from memory, and bounded."""

import asyncio
from typing import Any

import msgspec
import pytest

from actors.scheduler.claims import explanations
from actors.scheduler.claims.device_fit import SearchInputs
from actors.scheduler.claims.device_ledger import DeviceLedger
from actors.scheduler.claims.explanations import MAX_TEXTS, MAX_WAITING, Explanations, Question
from actors.scheduler.model.claim_demand import Demand
from actors.scheduler.model.views import NodeView, node_view
from protocols.cel.worker.selections import SelectorPending
from protocols.dra.allocator.catalog import Catalog
from protocols.dra.allocator.claims import claim_of
from protocols.dra.allocator.plan import CelSelectors
from protocols.dra.decode import class_of, slice_of
from protocols.dra.gates import Gates
from protocols.dra.types import Device, DeviceId
from tests.support.waiting import until_async

DRIVER = "d.example.com"
CLASSES = {"gpu": class_of({"metadata": {"name": "gpu"}, "spec": {}})}


def put_devices(catalog: Catalog, pool: str, count: int) -> None:
    devices = [{"name": f"d{at}"} for at in range(count)]
    spec = {"driver": DRIVER, "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1}, "nodeName": "n1"}
    catalog.put(slice_of({"metadata": {"name": pool}, "spec": {**spec, "devices": devices}}))


def node(name: str) -> NodeView:
    return node_view({"metadata": {"name": name}})


def question(name: str = "n1", signature: bytes = b"s", *expressions: str) -> Question:
    selectors = [{"cel": {"expression": text}} for text in expressions]
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "selectors": selectors}}]
    claim = claim_of({"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}})
    return Question(Demand(unallocated=(claim,), signature=signature), [node(name)], {"n1": ["Insufficient cpu"]})


class World:
    def __init__(self, devices: int) -> None:
        self.catalog, self.ledger, self.classes = Catalog(), DeviceLedger(), dict(CLASSES)
        put_devices(self.catalog, "p", devices)
        inputs = SearchInputs(self.catalog, self.ledger, self.classes, CelSelectors(), Gates())
        self.done = self.class_changes = 0
        self.explanations = Explanations(inputs, lambda: (self.catalog.revision, self.class_changes))

    def explain(self, *args: Any) -> str | None:
        return self.explanations.explain(question(*args), self._done)

    def _done(self) -> None:
        self.done += 1


def test_few_devices_are_explained_at_once_with_reasons_of_other_nodes() -> None:
    world = World(2)
    text = "request gpu: of 2 devices 2 its node does not fit the pod: Insufficient cpu"
    assert world.explain("n2") == text


def test_text_stays_while_devices_come_and_go_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(2)
    first = world.explain("n2")
    world.ledger.reserve("c", {DeviceId(DRIVER, "p", "d0"): None})
    assert world.explain("n2") == first
    monkeypatch.setattr(explanations, "KEPT_S", -1.0)
    assert "1 in use" in str(world.explain("n2"))


def test_text_is_renewed_when_slices_change() -> None:
    world = World(2)
    world.explain("n2")
    put_devices(world.catalog, "q", 1)
    assert "of 3 devices" in str(world.explain("n2"))


def test_text_is_renewed_when_classes_change() -> None:
    world = World(2)
    wrong = {"selectors": [{"cel": {"expression": 'device.driver == "other"'}}]}
    assert "its node does not fit" in str(world.explain("n2"))
    world.classes["gpu"] = class_of({"metadata": {"name": "gpu"}, "spec": wrong})
    world.class_changes += 1
    assert "selector #0 of class gpu is false" in str(world.explain("n2"))


def test_text_about_several_claims_names_those_of_the_pod() -> None:
    world, (claim,) = World(1), question().demand.unallocated
    for pod in "ab":
        claims = tuple(msgspec.structs.replace(claim, key=f"{pod}/{entry}") for entry in "xy")
        asked = question()._replace(demand=Demand(unallocated=claims, signature=b"s"))
        assert f"request gpu of claim {pod}/y: of 1 devices" in str(world.explanations.explain(asked, world._done))


async def test_many_devices_are_explained_in_the_background_even_if_slices_keep_changing() -> None:
    world = World(3000)
    assert world.explain("n2") is None
    worker = asyncio.ensure_future(world.explanations.run())
    await until_async("done", lambda: world.done == 1)
    put_devices(world.catalog, "q", 1)
    assert "of 3000 devices" in str(world.explain("n2"))
    assert world.explain("n2") is None
    worker.cancel()


async def test_text_is_given_up_if_selectors_are_never_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    def pending(self: CelSelectors, expression: str, driver: str, device: Device) -> bool:
        raise SelectorPending(expression, driver, device)

    world, asked = World(2), ("n2", b"s", "true")
    monkeypatch.setattr(CelSelectors, "matches", pending)
    assert world.explain(*asked) is None
    worker = asyncio.ensure_future(world.explanations.run())
    await until_async("done", lambda: world.done == 1)
    assert world.explain(*asked) == ""
    worker.cancel()


def test_waiting_questions_and_texts_are_bounded() -> None:
    world = World(3000)
    answers = [world.explain("n2", str(at).encode()) for at in range(MAX_WAITING + 2)]
    assert answers == [None] * MAX_WAITING + ["", ""]
    small = World(1)
    for at in range(MAX_TEXTS + 10):
        small.explain("n2", str(at).encode())
    assert len(small.explanations._texts) == MAX_TEXTS
