"""Patches and rules: what is refused, filled in and dropped."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from actors.apiserver.api.request.target import Target
from actors.apiserver.writes.metadata import stamp_new
from actors.apiserver.writes.update import updated
from protocols.kinds.dra.administration import PatchStrategy, RuleStrategy
from protocols.kinds.dra.devices import claim_state
from protocols.kinds.dra.slices import SliceStrategy
from protocols.kinds.shapes.clean import WrongType, clean
from protocols.kube.meta import Object
from tests.support.dra_rows import body, created, row

SEMVER = "must be a string compatible with semver.org spec 2.0.0"
ONE_VALUE = "exactly one value must be specified"


def patch_faults(**devices: Any) -> list[str]:
    return [fault.removeprefix("spec.devices.") for fault in created(PATCHES, {"devices": devices})[1]]


PATCHES = row("resourceslicepatches", "v1alpha3")


@pytest.mark.scenario("S24")
def test_a_patch_needs_no_more_than_devices() -> None:
    assert patch_faults() == []
    assert created(PATCHES, {})[1] == ["spec.devices: Required value"]


@pytest.mark.scenario("S24")
@pytest.mark.parametrize(
    ("attributes", "fault"),
    [
        ({"bare": {"int": 1}}, '[bare]: Invalid value: "bare": a fully qualified name must be a domain and a name'),
        ({"d/x": {"int": 1, "string": "a"}}, f'[d/x]: Invalid value: {{"int":1,"string":"a"}}: {ONE_VALUE}'),
        ({"d/x": {"int": 1, "null": {}}}, f'[d/x]: Invalid value: {{"int":1,"null":{{}}}}: {ONE_VALUE}'),
        ({"d/x": {}}, f'[d/x]: Invalid value: "": {ONE_VALUE}'),
        ({"d/x": {"version": "v1.0.0"}}, f'[d/x].version: Invalid value: "v1.0.0": {SEMVER}'),
        ({"d/x": {"version": "1.10"}}, f'[d/x].version: Invalid value: "1.10": {SEMVER}'),
        ({"d/x": {"string": "a" * 65}}, "[d/x].string: Too long: may not be more than 64 bytes"),
        ({"d/x": {"string": "ä" * 33}}, "[d/x].string: Too long: may not be more than 64 bytes"),
        ({"a/b/c": {"int": 1}}, '[a/b/c]: Invalid value: "a/b/c": a fully qualified name must'),
        ({"/x": {"int": 1}}, '[/x]: Invalid value: "": the domain must not be empty'),
        ({"d/": {"int": 1}}, '[d/]: Invalid value: "": the name must not be empty'),
        ({"d/1": {"int": 1}}, '[d/1]: Invalid value: "1": a valid C identifier must start with alphabetic character'),
        ({"d/" + "x" * 33: {"int": 1}}, f"[d/{'x' * 33}]: Too long: may not be more than 32 bytes"),
        ({"d" * 64 + "/x": {"int": 1}}, f"[{'d' * 64}/x]: Too long: may not be more than 63 bytes"),
    ],
)
def test_attributes_of_a_patch(attributes: Object, fault: str) -> None:
    found = patch_faults(attributes=attributes)
    assert len(found) == 1
    assert found[0].startswith(f"attributes{fault}")


@pytest.mark.scenario("S24")
def test_as_many_and_as_long_as_allowed() -> None:
    longest: Object = {f"{'d' * 63}/{'x' * 29}_{number:02}": {"null": {}} for number in range(16)}
    amounts = {f"d/c{number}": {"value": "-1"} for number in range(16)}
    assert patch_faults(attributes=longest, capacity=amounts) == []
    found = created(PATCHES, {"devices": {"attributes": longest, "capacity": {**amounts, "d/one": {"value": 1}}}})[1]
    assert found == [
        "spec.devices: Invalid value: 33: the total number of attributes and capacities must not exceed 32"
    ]


@pytest.mark.scenario("S24")
def test_long_keys_lose_their_middle() -> None:
    field = f"attributes[{'a' * 46}...{'a' * 46}]"
    long, invalid = patch_faults(attributes={"a" * 200: {"int": 1}})
    assert long == f"{field}: Too long: may not be more than 32 bytes"
    assert invalid.startswith(f"{field}: Invalid value")


@pytest.mark.scenario("S24")
@pytest.mark.parametrize(
    ("filter", "fault"),
    [
        ({"deviceClassName": "A_"}, 'deviceClassName: Invalid value: "A_": a lowercase RFC 1123 subdomain'),
        ({"deviceClassName": ""}, "deviceClassName: Required value"),
        ({"driver": ""}, "driver: Required value"),
        ({"driver": "x" * 64}, "driver: Too long: may not be more than 63 bytes"),
        ({"pool": "a//b"}, 'pool: Invalid value: "": a lowercase RFC 1123 subdomain'),
        ({"device": "A"}, 'device: Invalid value: "A": a lowercase RFC 1123 label'),
        ({"selectors": [{"cel": {"expression": "1"}}]},
         'selectors[0].cel.expression: Invalid value: "1": must evaluate to bool or the unknown type, not int'),
        ({"selectors": [{"cel": {"expression": "x" * 10241}}]},
         "selectors[0].cel.expression: Too long: may not be more than 10240 bytes"),
        ({"selectors": [{}]}, "selectors[0].cel: Required value"),
        ({"selectors": [{"cel": {"expression": "true"}}] * 33}, "selectors: Too many: 33: must have at most 32 items"),
        ({"selectors": [{"cel": {"expression": "device.attributes[true]"}}]},
         'selectors[0].cel.expression: Invalid value: "device.attributes[true]": compilation failed: ERROR: '
         "<input>:1:18: found no matching overload for '_[_]'"),
        ({"selectors": [{"cel": {"expression": "[0,1,2,3,4,5,6,7,8,9]" + ".map(x, [0,1,2,3,4,5,6,7,8,9]" * 6 + ")" * 6
                                               + ".size() > 1"}}]},
         "selectors[0].cel.expression: Forbidden: too complex, exceeds cost limit"),
    ],
)  # fmt: skip
def test_filters_of_a_patch(filter: Object, fault: str) -> None:
    found = patch_faults(filter=filter)
    assert len(found) == 1
    assert found[0].startswith(f"filter.{fault}")


def test_selectors_of_one_object_have_a_budget() -> None:
    many = [{"cel": {"expression": f'device.driver == "{number}{"x" * 8000}"'}} for number in range(9)]
    assert any(
        "the expressions of one object must not have more" in fault
        for fault in patch_faults(filter={"selectors": many})
    )
    assert patch_faults(filter={"selectors": many[:1] * 20}) == []


def test_a_stored_selector_that_no_longer_compiles_can_stay() -> None:
    stored = body(PATCHES, {"devices": {"filter": {"selectors": [{"cel": {"expression": "was fine once"}}]}}})
    new = copy.deepcopy(stored)
    new["spec"]["devices"]["priority"] = 3
    assert PATCHES.strategy.validate_update(new, stored) == []
    new["spec"]["devices"]["filter"]["selectors"].append({"cel": {"expression": "true"}})
    assert len(PATCHES.strategy.validate_update(new, stored)) == 1


def test_taints_of_a_patch() -> None:
    taints = [{"key": "a", "effect": "No"}, {"key": "", "effect": ""}, {"key": "b", "effect": "None", "value": "-"}]
    found = patch_faults(taints=[*taints, {"key": "b", "effect": "None"}, {"key": "b", "effect": "NoExecute"}])
    assert found[0] == 'taints[0].effect: Unsupported value: "No": supported values: "NoExecute", "NoSchedule", "None"'
    assert found[1].startswith('taints[1].key: Invalid value: "": name part must be non-empty')
    assert found[3] == "taints[1].effect: Required value"
    assert found[4].startswith('taints[2].value: Invalid value: "-": a valid label must be')
    assert found[5:] == ['taints[3]: Duplicate value: "b:None"']
    assert patch_faults(taints=[{"key": f"k{n}", "effect": "None"} for n in range(17)]) == [
        "taints: Too many: 17: must have at most 16 items"
    ]


def test_a_patch_has_no_policy_and_no_fractions() -> None:
    assert patch_faults(capacity={"d/x": {"value": "1", "requestPolicy": {}}})[0].startswith(
        "capacity[d/x].requestPolicy: Forbidden"
    )
    for devices in (
        {"priority": 3.0},
        {"priority": 2**31},
        {"attributes": {"d/x": {"int": True}}},
        {"capacity": {"d/x": {"value": "1 Gi"}}},
    ):
        with pytest.raises(WrongType):
            created(PATCHES, {"devices": devices})
    obj = body(PATCHES, {"devices": {"attributes": {"d/x": {"ints": [1]}}}})
    assert PATCHES.shape is not None
    assert clean(obj, PATCHES.shape) == ["spec.devices.attributes[d/x].ints"] or clean(obj, PATCHES.shape) == []


def test_null_stays_an_empty_object() -> None:
    obj, faults = created(PATCHES, {"devices": {"attributes": {"d/x": {"null": {}}}}})
    assert faults == []
    assert obj["spec"]["devices"]["attributes"] == {"d/x": {"null": {}}}
    assert created(PATCHES, {"devices": {"attributes": {"d/x": {"null": None}}}})[1] == [
        f'spec.devices.attributes[d/x]: Invalid value: "": {ONE_VALUE}'
    ]


def gated(strategy: PatchStrategy | RuleStrategy | SliceStrategy, *off: str) -> Any:
    strategy.gate = lambda name: name not in off
    return strategy


@pytest.mark.scenario("S22")
def test_fields_behind_a_gate_are_dropped_unless_they_are_in_use() -> None:
    strategy = gated(PatchStrategy(), "DRAAdminControlledDeviceAttributes")
    devices = {
        "attributes": {"d/x": {"int": 1}},
        "capacity": {"d/x": {"value": "1"}},
        "taints": [{"key": "k", "effect": "None"}],
    }
    new = body(PATCHES, {"devices": copy.deepcopy(devices)})
    strategy.prepare_create(new)
    assert set(new["spec"]["devices"]) == {"taints"}
    stored = body(PATCHES, {"devices": {"attributes": {"d/y": {"int": 2}}}})
    new = body(PATCHES, {"devices": copy.deepcopy(devices)})
    strategy.prepare_update(new, stored)
    assert set(new["spec"]["devices"]) == {"taints", "attributes"}
    strategy = gated(PatchStrategy(), "DRADeviceTaints")
    new = body(PATCHES, {"devices": copy.deepcopy(devices)})
    strategy.prepare_create(new)
    assert set(new["spec"]["devices"]) == {"attributes", "capacity"}
    slices = gated(SliceStrategy(), "DRADeviceBindingConditions")
    late = {"name": "a", "bindsToNode": True, "bindingConditions": ["c"], "bindingFailureConditions": ["f"]}
    new = body(row("resourceslices"), {"devices": [dict(late)]})
    slices.prepare_create(new)
    assert new["spec"]["devices"] == [{"name": "a"}]
    new, old = (body(row("resourceslices"), {"devices": [dict(late)]}) for _ in range(2))
    slices.prepare_update(new, old)
    assert new["spec"]["devices"] == [late]
    slices = gated(SliceStrategy(), "DRADeviceTaints")
    new = body(row("resourceslices"), {"devices": [{"name": "a", "taints": [{"key": "k", "effect": "None"}]}]})
    slices.prepare_create(new)
    assert new["spec"]["devices"] == [{"name": "a"}]


@pytest.mark.scenario("S25")
def test_generations_of_a_patch() -> None:
    new, _ = created(PATCHES, {"devices": {"priority": 1}})
    stamp_new(new, PATCHES)
    new["metadata"]["resourceVersion"] = "1"
    target = Target(PATCHES, "update", "", "x")

    def write(change: Callable[[Object], None]) -> int:
        nonlocal new
        changed = copy.deepcopy(new)
        change(changed)
        result = updated(target, changed, new)
        assert result is not None
        new = result
        return int(new["metadata"]["generation"])

    assert new["metadata"]["generation"] == 1
    assert write(lambda obj: obj["metadata"].update(labels={"a": "b"})) == 1
    assert write(lambda obj: obj["spec"]["devices"].update(priority=2)) == 2
    assert write(lambda obj: None) == 2


@pytest.mark.scenario("A9")
def test_a_taint_counts_again_when_its_effect_changes() -> None:
    old = "2026-01-01T00:00:00Z"
    rule = RuleStrategy()
    stored = {"spec": {"taint": {"key": "k", "effect": "None", "timeAdded": old}}}
    new = copy.deepcopy(stored)
    new["spec"]["taint"]["effect"] = "NoExecute"
    rule.prepare_update(new, stored)
    assert new["spec"]["taint"]["timeAdded"] > old
    kept = copy.deepcopy(stored)
    kept["spec"]["taint"]["value"] = "v"
    rule.prepare_update(kept, stored)
    assert kept["spec"]["taint"]["timeAdded"] == old
    before = body(PATCHES, {"devices": {"taints": [{"key": "k", "effect": "None", "timeAdded": old}]}})
    after = body(PATCHES, {"devices": {"taints": [{"key": "k", "effect": "NoExecute", "timeAdded": old}]}})
    PatchStrategy().prepare_update(after, before)
    assert after["spec"]["devices"]["taints"][0]["timeAdded"] > old


@pytest.mark.parametrize(
    ("change", "field"),
    [({}, ""), ({"status": ""}, "status"), ({"type": ""}, "type"), ({"reason": ""}, "reason")],
)
def test_rule_status_with_one_fault_is_rejected_at_its_field(change: Object, field: str) -> None:
    rules = row("devicetaintrules", "v1beta2")
    stamp = "2026-01-01T00:00:00Z"
    good = {"type": "EvictionInProgress", "status": "True", "reason": "R", "message": "", "lastTransitionTime": stamp}
    rule: Object = {"metadata": {"name": "a"}, "status": {"conditions": [{**good, **change}]}}
    causes = {cause.field for cause in rules.strategy.validate_status(rule, rule)}
    assert causes == ({f"status.conditions[0].{field}"} if field else set())


@pytest.mark.parametrize(
    ("status", "deleted", "state"),
    [
        ({}, False, "pending"),
        ({}, True, "deleted"),
        ({"allocation": {"devices": {}}}, False, "allocated"),
        ({"allocation": {"devices": {}}}, True, "deleted,allocated"),
        ({"allocation": {"devices": {}}, "reservedFor": [{"uid": "u"}]}, True, "deleted,allocated,reserved"),
    ],
)
def test_state_of_a_claim_is_shown_as_upstream_does(status: Object, deleted: bool, state: str) -> None:
    metadata = {"name": "c", **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {})}
    assert claim_state({"metadata": metadata, "status": status}) == state
