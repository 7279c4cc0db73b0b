"""What the API accepts of shared devices: request policies of slices, capacity in claims, ids of shares in a status."""

import copy
import json
from typing import Any

import pytest

from protocols.kinds.dra.allocation import drop_deallocated, status_causes
from protocols.kinds.dra.claims import ClaimStrategy
from protocols.kinds.dra.slices import SliceStrategy
from protocols.kube.meta import Object
from tests.support.dra_rows import SLICE, created, row

PATH = "spec.devices[0].capacity[m].requestPolicy"
MULTIPLE = "value is not a multiple of a given step"
NOT_VALID = "default value is not valid according to the requestPolicy"


def slice_faults(policy: Any, value: str = "8Gi", *, shared: bool = True) -> list[str]:
    device: Object = {"name": "a", "capacity": {"m": {"value": value, "requestPolicy": policy}}}
    spec = {**SLICE, "devices": [{**device, **({"allowMultipleAllocations": True} if shared else {})}]}
    return [fault.removeprefix(PATH) for fault in created(row("resourceslices"), spec)[1]]


def in_range(low: str | None = "1Gi", high: str | None = "8Gi", step: str | None = "1Gi", default: str = "1Gi") -> Any:
    bounds = {"min": low, "max": high, "step": step}
    return {"default": default, "validRange": {name: value for name, value in bounds.items() if value}}


@pytest.mark.parametrize(
    ("policy", "faults"),
    [
        ({}, []),
        ({"default": "1Ti"}, []),
        (in_range(), []),
        (in_range(high=None, step=None), []),
        (in_range(low="0"), []),
        (in_range(step="-1"), []),
        (in_range(step="1.5"), []),
        (in_range(step="0.5m"), []),
        (in_range(low=None), [".validRange.min: Required value: required when validRange is defined"]),
        ({"validRange": {"min": "1"}}, [".default: Required value: required when validRange is defined"]),
        ({"validValues": ["1"]}, [".default: Required value: required when validValues is defined"]),
        (
            {**in_range(), "validValues": ["1Gi"]},
            [
                ': Forbidden: exactly one policy can be specified, cannot specify "validValues" and "validRange" at the'
                " same time"
            ],
        ),
        (
            in_range(low="9Gi", high=None, step=None, default="9Gi"),
            ['.validRange.min: Invalid value: "9Gi": min is larger than capacity value: 8Gi'],
        ),
        (in_range(high="16Gi"), ['.validRange.max: Invalid value: "16Gi": max is larger than capacity value: 8Gi']),
        (in_range(low="2Gi", default="1Gi"), ['.validRange.min: Invalid value: "1Gi": default is less than min: 2Gi']),
        (
            in_range(low="2Gi", high="1Gi", step=None, default="2Gi"),
            [
                '.validRange.max: Invalid value: "2Gi": min is larger than max: 1Gi',
                '.validRange.max: Invalid value: "2Gi": default is more than max: 1Gi',
            ],
        ),
        (
            in_range(step="9Gi", high=None),
            ['.validRange.step: Invalid value: "9Gi": one step 10Gi is larger than capacity value: 8Gi'],
        ),
        (
            in_range(low="1", default="1Gi"),
            [
                f'.validRange.step: Invalid value: "1Gi": {MULTIPLE} (1Gi) from (1)',
                f'.validRange.step: Invalid value: "8Gi": {MULTIPLE} (1Gi) from (1)',
            ],
        ),
        (in_range(step="0", low="1Gi"), ['.validRange.step: Invalid value: "0": must not be zero']),
        ({"default": "1", "validValues": ["1", "2", "8Gi"]}, []),
        ({"default": "2", "validValues": ["1", "2"]}, []),
        ({"default": "3", "validValues": ["1", "2"]}, [f'.validValues: Invalid value: "3": {NOT_VALID}']),
        (
            {"default": "1", "validValues": ["1", "9Gi"]},
            ['.validValues[1]: Invalid value: "9Gi": option is larger than capacity value: 8Gi'],
        ),
        (
            {"default": "1", "validValues": ["2", "1"]},
            ['.validValues[1]: Invalid value: "1": values must be sorted in ascending order'],
        ),
        ({"default": "1", "validValues": ["1", "1"]}, ['.validValues[1]: Duplicate value: "1"']),
        (
            {"default": "1", "validValues": [str(at) for at in range(1, 12)]},
            [
                ".validValues: Too many: 11: must have at most 10 items",
                f'.validValues: Invalid value: "1": {NOT_VALID}',
            ],
        ),
    ],
)
def test_request_policy_is_validated_as_upstream(policy: Any, faults: list[str]) -> None:
    assert slice_faults(policy) == faults


def test_policy_of_a_device_that_is_not_shared_is_forbidden() -> None:
    assert slice_faults({}, shared=False) == [": Forbidden: allowMultipleAllocations must be true"]


@pytest.mark.parametrize("form", ["exactly", "firstAvailable"])
def test_claim_may_request_any_capacity(form: str) -> None:
    """As upstream: names and amounts that no device has are left to the allocator."""
    amounts = {"memory": "1500Mi", "a/b/c": -1, "": "1.5Gi", "d.example.com/cores": None}
    part = {"deviceClassName": "gpu", "capacity": {"requests": amounts}}
    request = {"name": "r", form: part if form == "exactly" else [{"name": "s", **part}]}
    constraints = [{"requests": ["r"], "distinctAttribute": "d.example.com/numa"}]
    claim, faults = created(row("resourceclaims"), {"devices": {"requests": [request], "constraints": constraints}})
    assert faults == []
    kept = claim["spec"]["devices"]["requests"][0][form]
    kept = kept if form == "exactly" else kept[0]
    assert kept["capacity"]["requests"] == {"memory": "1500Mi", "a/b/c": "-1", "": "1536Mi", "d.example.com/cores": "0"}


def claim_with(*results: Object, devices: tuple[Object, ...] = ()) -> Object:
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    device = {"driver": "d.example.com", "pool": "p", "device": "x"}
    allocation = {"devices": {"results": [{"request": "r", **device, **result} for result in results]}}
    status = {"allocation": allocation, "devices": [{**device, **each} for each in devices]}
    return {"metadata": {"name": "c", "namespace": "ns"}, "spec": spec, "status": status}


ONE, TWO = "7cf6ba0c-4f4a-4a3d-92ef-1a2b3c4d5e6f", "7cf6ba0c-4f4a-4a3d-92ef-1a2b3c4d5e70"


@pytest.mark.parametrize(
    ("id", "fault"),
    [
        (ONE, ""),
        (ONE.upper(), "uid must be in RFC 4122 normalized form"),
        (ONE.replace("-", ""), "uid must be in RFC 4122 normalized form"),
        ("x", "error validating uid: invalid UUID length: 1"),
        (ONE.replace("-", "+"), "error validating uid: invalid UUID format"),
    ],
)
def test_id_of_a_share_is_a_lower_case_uuid(id: str, fault: str) -> None:
    pending = {**claim_with(), "status": {}}
    allocated = claim_with({"shareID": id}, devices=({"shareID": id},))
    causes = status_causes(allocated, pending)
    fields = ["status.allocation.devices.results[0].shareID", "status.devices[0].shareID"] if fault else []
    assert [cause.field for cause in causes] == fields
    assert all(fault in cause.message for cause in causes)


def test_status_of_devices_is_kept_by_share() -> None:
    pending = {**claim_with(), "status": {}}
    both = claim_with({"shareID": ONE}, {"shareID": TWO}, devices=({"shareID": ONE}, {"shareID": TWO}))
    assert status_causes(both, pending) == []
    twice = claim_with({"shareID": ONE}, devices=({"shareID": ONE}, {"shareID": ONE}))
    assert [cause.reason for cause in status_causes(twice, pending)] == ["FieldValueDuplicate"]
    (cause,) = status_causes(claim_with({"shareID": ONE}, devices=({},)), pending)
    shown = '{"Driver":"d.example.com","Pool":"p","Device":"x","ShareID":""}'
    assert cause.message == f"Invalid value: {shown}: must be an allocated device in the claim"
    left = {"devices": list(both["status"]["devices"])}
    drop_deallocated(left, both["status"])
    assert left == {}


def gate_off(strategy: Any) -> Any:
    strategy.gate = lambda name: name != "DRAConsumableCapacity"
    return strategy


def test_fields_of_shares_are_dropped_with_the_gate_off_unless_in_use() -> None:
    slices, claims = gate_off(SliceStrategy()), gate_off(ClaimStrategy())
    policy = {"value": "1", "requestPolicy": {"default": "1"}}
    published = {"spec": {"devices": [{"name": "a", "allowMultipleAllocations": True, "capacity": {"m": policy}}]}}
    stored, again = copy.deepcopy(published), copy.deepcopy(published)
    slices.prepare_create(stored)
    assert stored["spec"]["devices"] == [{"name": "a", "capacity": {"m": {"value": "1"}}}]
    slices.prepare_update(again, published)
    assert again == published
    part = {"deviceClassName": "gpu", "capacity": {"requests": {"m": "1"}}}
    requests = [{"name": "r", "exactly": part}, {"name": "s", "firstAvailable": [{"name": "t", **part}]}]
    constraint = {"requests": ["r"], "matchAttribute": "d/x", "distinctAttribute": "d/x"}
    claim = {"metadata": {}, "spec": {"devices": {"requests": requests, "constraints": [constraint]}}}
    claims.prepare_create(claim)
    assert "capacity" not in json.dumps(claim)
    assert "distinct" not in json.dumps(claim)
    new = claim_with({"shareID": ONE, "consumedCapacity": {"m": "1"}}, devices=({"shareID": ONE},))
    allocated = copy.deepcopy(new)
    claims.prepare_status(allocated, {**claim_with(), "status": {}})
    assert "shareID" not in json.dumps(allocated)
    assert "consumedCapacity" not in json.dumps(allocated)
    kept = copy.deepcopy(new)
    claims.prepare_status(kept, new)
    assert kept["status"] == new["status"]
