"""Claims in the life of a pod: which it has, when they are asked for, and that all are given back."""

import asyncio
from collections.abc import Iterable
from typing import Any, cast

import pytest

from actors.podworker.node.driver_slices import GRACE_S, GoneDrivers, SliceCleaner, SliceCleanerOptions
from protocols.kinds import views
from protocols.kinds.table import Resource
from protocols.kube.meta import Object
from protocols.kubeclient.client import ApiClient, ApiError
from protocols.lifecycle.errors import ClaimsNotReady
from protocols.lifecycle.pods.admission import admit_request
from protocols.lifecycle.pods.claims import check, entries, references, uses_claims, with_cdi
from protocols.lifecycle.pods.types import PodSpec, read_pod
from protocols.messages.devices import ClaimReference, ClaimResult, ContainerGrant, PodClaim
from tests.support.device_node import until
from tests.support.podworker_fakes import UID, container, pod

RESULT = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "dev-0"}


def claimed(status: Object | None = None, **more: Any) -> PodSpec:
    named = container("a", resources={"claims": [{"name": "gpu"}, {"name": "nic", "request": "r"}]})
    claims = [{"name": "gpu", "resourceClaimName": "shared"}, {"name": "nic", "resourceClaimTemplateName": "t"}]
    return read_pod(pod(named, resourceClaims=claims, status=status or {}, **more))


def claim(
    uid: str = "c-uid", users: Iterable[str] = (UID,), owner: str = "", allocation: bool = True
) -> views.ResourceClaim:
    owners = [{"controller": True, "uid": owner}] if owner else []
    status: Object = {"reservedFor": [{"resource": "pods", "name": "p", "uid": user} for user in users]}
    if allocation:
        status["allocation"] = {"devices": {"results": [RESULT]}}
    return cast("views.ResourceClaim", {"metadata": {"uid": uid, "ownerReferences": owners}, "status": status})


def test_claims_of_a_pod_are_named_by_it_or_by_its_status() -> None:
    with pytest.raises(ClaimsNotReady, match=r'^pod "ns/p": ResourceClaim not created yet$'):
        entries(claimed())
    named = {"resourceClaimStatuses": [{"name": "nic", "resourceClaimName": "p-nic-x"}]}
    assert [(item.entry, item.claim, item.generated) for item in entries(claimed(named))] == [
        ("gpu", "shared", False),
        ("nic", "p-nic-x", True),
    ]
    skipped = {"resourceClaimStatuses": [{"name": "nic"}]}
    assert [item.entry for item in entries(claimed(skipped))] == ["gpu"]
    assert references(claimed()) == (ClaimReference("a", "gpu", ""), ClaimReference("a", "nic", "r"))
    assert not uses_claims(read_pod(pod()))


def test_extended_resources_have_a_claim_of_their_own() -> None:
    mapped = {"containerName": "a", "resourceName": "example.com/gpu", "requestName": "container-0-request-0"}
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "p-ext", "requestMappings": [mapped]}}
    spec = read_pod(pod(status=status))
    assert [(item.entry, item.claim, item.generated) for item in entries(spec)] == [("", "p-ext", True)]
    assert references(spec) == (ClaimReference("a", "", "container-0-request-0", "example.com/gpu"),)


@pytest.mark.scenario("S50")
def test_what_is_wrong_with_a_claim_has_upstreams_words() -> None:
    """S50, the API's part."""
    spec = claimed({"resourceClaimStatuses": [{"name": "nic", "resourceClaimName": "p-nic-x"}]})
    shared, generated = entries(spec)
    result = ClaimResult("r", "gpu.example.com", "n1", "dev-0")
    assert check(spec, shared, claim()) == PodClaim("gpu", "ns", "shared", "c-uid", (result,))
    assert check(spec, generated, claim(owner=UID)).name == "p-nic-x"
    for entry, wrong, text in (
        (generated, claim(owner="other"), "ResourceClaim ns/p-nic-x was not created for Pod ns/p (Pod is not owner)"),
        (shared, claim(users=("x",)), f"pod p ({UID}) is not allowed to use ResourceClaim shared (c-uid)"),
        (shared, claim(allocation=False), "ResourceClaim shared: not allocated"),
    ):
        with pytest.raises(ClaimsNotReady) as refused:
            check(spec, entry, wrong)
        assert str(refused.value) == text


def test_cdi_names_of_plugins_and_drivers_come_together_once_each() -> None:
    grant = ContainerGrant(envs={"A": "1"}, cdi_devices=("v/c=0", "v/c=1"))
    both = with_cdi(grant, ("v/c=1", "v/c=2"))
    assert both is not None
    assert (both.envs, both.cdi_devices) == ({"A": "1"}, ("v/c=0", "v/c=1", "v/c=2"))
    assert with_cdi(None, ()) is None


def test_slices_of_a_driver_that_is_gone_go_after_half_a_minute() -> None:
    """S48, the pure part."""
    gone = GoneDrivers()
    gone.found({"old", "here"}, {"here": True}, 0.0)
    assert gone.due(0.0) == ["old"]
    gone.failed("old", 0.0)
    assert gone.due(0.9) == []
    gone.deleted("old")
    assert gone.next_due() is None
    gone.observe({"here": False}, 10.0)
    gone.observe({"here": False}, 20.0)
    assert gone.due(9.9 + GRACE_S) == []
    assert gone.due(10.0 + GRACE_S) == ["here"]
    gone.observe({"here": True}, 15.0)
    assert gone.next_due() is None
    gone.observe({"never": False}, 50.0)  # registered, never connected; and `here` is not known any more
    assert gone.due(50.0 + GRACE_S) == ["here", "never"]


class SliceApi:
    """As much of a client as the wiper uses; `refusals` are raised one by one."""

    def __init__(self, *drivers: str) -> None:
        self.slices, self.refusals = set(drivers), list[int]()
        self.calls = list[tuple[str, str]]()

    async def list(self, resource: Resource, field_selector: str) -> Object:
        self._called("list", field_selector)
        return {"items": [{"spec": {"driver": driver}} for driver in sorted(self.slices)]}

    async def delete_collection(self, resource: Resource, field_selector: str) -> None:
        self._called("delete", field_selector)
        self.slices.discard(field_selector.rpartition("=")[2])

    def _called(self, verb: str, selector: str) -> None:
        self.calls.append((verb, selector))
        if self.refusals:
            raise ApiError(self.refusals.pop(0), {"message": "no"})


@pytest.mark.scenario("S48")
async def test_the_node_deletes_slices_of_the_gone_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """S48, with an API that refuses at first."""
    monkeypatch.setattr("actors.podworker.node.driver_slices.RETRY_FIRST_S", 0.02)

    api, connected = SliceApi("stale", "here", "blinks", ""), {"here": True, "blinks": True}
    api.refusals = [503]
    client = cast(ApiClient, api)
    wiper = SliceCleaner(SliceCleanerOptions(node="n1", client=client, connected=lambda: connected, grace=1.5))
    monkeypatch.setattr("actors.podworker.node.driver_slices.FIRST_S", 0.01)
    task = asyncio.create_task(wiper.run())
    async with asyncio.timeout(60):
        await until("stale ones gone", lambda: "stale" not in api.slices)
        api.refusals = [403, 409, 429]
        connected = {"here": False, "blinks": False}
        wiper.wake()
        await asyncio.sleep(0.02)
        connected = {"here": False, "blinks": True}
        wiper.wake()
        await until("those of the gone, too", lambda: "here" not in api.slices)
        await asyncio.sleep(0.1)
    task.cancel()
    assert api.slices == {"blinks", ""}
    assert {call for call in api.calls if call[0] == "delete"} == {
        ("delete", "spec.nodeName=n1,spec.driver=stale"),
        ("delete", "spec.nodeName=n1,spec.driver=here"),
    }


async def test_slices_of_a_driver_that_comes_back_during_another_deletion_stay() -> None:
    api, connected = SliceApi(), {"a": True, "b": True}
    cleaner = SliceCleaner(SliceCleanerOptions("n1", cast(ApiClient, api), lambda: connected, grace=0.05))
    delete = api.delete_collection

    async def comes_back(resource: Resource, field_selector: str) -> None:
        connected["b"] = True
        await delete(resource, field_selector)

    api.delete_collection = comes_back  # type: ignore[method-assign]  # b registers while the slices of a are deleted
    task = asyncio.create_task(cleaner.run())
    await until("listed", lambda: bool(api.calls))
    api.slices |= {"a", "b"}
    connected.update(a=False, b=False)
    cleaner.wake()
    await until("those of one are gone", lambda: "a" not in api.slices)
    await asyncio.sleep(0.05)
    task.cancel()
    assert api.slices == {"b"}


def test_resources_that_come_by_a_claim_are_not_asked_of_device_plugins() -> None:
    mapped = {"containerName": "a", "resourceName": "example.com/gpu", "requestName": "container-0-request-0"}
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "p-ext", "requestMappings": [mapped]}}
    limits = {"limits": {"example.com/gpu": 1, "example.com/nic": 2}}
    spec = read_pod(pod(container("a", resources=limits), container("b", resources=limits), status=status))
    asked = {item.name: item.resources for item in admit_request(spec, ()).containers}
    assert asked == {"a": {"example.com/nic": 2}, "b": {"example.com/gpu": 1, "example.com/nic": 2}}
