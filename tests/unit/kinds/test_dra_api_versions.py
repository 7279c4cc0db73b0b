"""Slices, classes and claims: what is refused, filled in, and shown in older versions."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.apiserver.api.stored import Stored, encode_object, view
from protocols.dra.decode import class_of, patch_of, rule_of, slice_of
from protocols.dra.types import Attribute
from protocols.kinds.dra.allocation import status_causes
from protocols.kinds.dra.devices import in_version
from protocols.kinds.served.row import Served
from protocols.kinds.shapes.clean import clean
from protocols.kube.meta import Object
from tests.support.dra_rows import GROUP, LABELLED, SLICE, body, created, row


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({}, ""),
        ({"driver": ""}, "spec.driver: Required value"),
        ({"pool": {"name": "p", "generation": -1, "resourceSliceCount": 1}},
         "spec.pool.generation: Invalid value: -1: must be greater than or equal to zero"),
        ({"pool": {"name": "p"}}, "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero"),
        ({"allNodes": None}, "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, "
                             "`perDeviceNodeSelection` is required"),
        ({"nodeName": "n"}, 'spec: Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, '
                            "`nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple"),
        ({"allNodes": False, "nodeName": "n"}, "spec.allNodes: Invalid value: false: must be either unset"),
        ({"nodeName": ""}, 'spec.nodeName: Invalid value: "": must be either unset or set to a non-empty string'),
        ({"allNodes": None, "nodeName": "a/b"}, 'spec.nodeName: Invalid value: "a/b": a lowercase RFC 1123 subdomain'),
        ({"devices": [{"name": "a"}], "sharedCounters": [{"name": "s", "counters": {"c": {"value": 1}}}]},
         'spec: Invalid value: "{`sharedCounters`, `devices`}": only one of `sharedCounters` or `devices` is allowed'),
        ({"devices": [{"name": f"d{n}"} for n in range(129)]},
         "spec.devices: Too many: 129: must have at most 128 items"),
        ({"devices": [{"name": f"d{n}"} for n in range(64)] + [{"name": "x", "taints": [LABELLED]}]},
         "spec.devices: Too many: 65: must have at most 64 items"),
        ({"devices": [{"name": "a"}, {"name": "a"}]}, 'spec.devices[1].name: Duplicate value: "a"'),
        ({"devices": [{"name": "a", "nodeName": "n", "allNodes": True}]},
         "spec.devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set"),
        ({"allNodes": None, "perDeviceNodeSelection": True, "devices": [{"name": "a"}]},
         "spec.devices[0]: Required value: exactly one of `nodeName`, `nodeSelector`, or `allNodes`"),
        ({"devices": [{"name": "a", "capacity": {"c": {"value": "1", "requestPolicy": {"default": "1"}}}}]},
         "spec.devices[0].capacity[c].requestPolicy: Forbidden: allowMultipleAllocations must be true"),
        ({"devices": [{"name": "a", "consumesCounters": [{"counterSet": "s", "counters": {}}]}]},
         "spec.devices[0].consumesCounters[0].counters: Required value"),
        ({"devices": [{"name": "a", "bindingConditions": ["x"]}]},
         "spec.devices[0].bindingFailureConditions: Invalid value"),
        ({"sharedCounters": [{"name": "s", "counters": {"c": {"value": 1}}}] * 9},
         "spec.sharedCounters: Too many: 9: must have at most 8 items"),
        ({"devices": [{"name": "a", "attributes": {f"x{n}": {"int": n} for n in range(33)}}]},
         "spec.devices[0]: Invalid value: 33: the total number of attributes and capacities must not exceed 32"),
    ],
)  # fmt: skip
def test_slices(change: Object, fault: str) -> None:
    spec = {key: value for key, value in {**SLICE, **change}.items() if value is not None}
    found = created(row("resourceslices"), spec)[1]
    assert len(found) == bool(fault)
    assert not fault or found[0].startswith(fault)


ODD = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a b", "operator": "Near", "values": ["x"]}]}]}
ODD_FAULTS = ("matchExpressions[0].operator: Invalid value", "matchExpressions[0].key: Invalid value")


@pytest.mark.parametrize(
    ("terms", "faults"),
    [
        (None, ("nodeSelectorTerms: Required value", "nodeSelectorTerms: Invalid value: null: must have exactly one")),
        ([], ("nodeSelectorTerms: Required value", "nodeSelectorTerms: Invalid value: []: must have exactly one")),
        ([{}, {}], ("nodeSelectorTerms: Invalid value: [{},{}]: must have exactly one node selector term",)),
        (ODD["nodeSelectorTerms"], tuple(f"nodeSelectorTerms[0].{fault}" for fault in ODD_FAULTS)),
    ],
)  # fmt: skip
def test_node_selectors_of_slices_and_devices(terms: Any, faults: tuple[str, ...]) -> None:
    selector = {} if terms is None else {"nodeSelectorTerms": terms}
    slices, rest = row("resourceslices"), {key: value for key, value in SLICE.items() if key != "allNodes"}
    device = {"perDeviceNodeSelection": True, "devices": [{"name": "a", "nodeSelector": selector}]}
    for spec, path in (({"nodeSelector": selector}, "spec"), (device, "spec.devices[0]")):
        found = created(slices, {**rest, **copy.deepcopy(spec)})[1]
        assert len(found) == len(faults)
        for text, fault in zip(found, faults, strict=True):
            assert text.startswith(f"{path}.nodeSelector.{fault}")


def test_slice_with_alpha_fields_is_stored_without_them() -> None:
    slices = row("resourceslices")
    device = {"name": "a", "attributes": {"x": {"int": 1, "ints": [1]}}, "nodeAllocatableResourceMappings": {"k": {}}}
    new = body(slices, {**SLICE, "devices": [device]})
    slices.strategy.prepare_update(new, {})
    assert new["spec"]["devices"] == [{"name": "a", "attributes": {"x": {"int": 1}}}]


def test_what_a_slice_never_changes() -> None:
    slices = row("resourceslices")
    old = body(slices, {**SLICE, "nodeName": "n"})
    new = body(slices, {**SLICE, "driver": "e.example.com", "pool": {"name": "q", "resourceSliceCount": 1}})
    found = [f"{cause.field}: {cause.message}" for cause in slices.strategy.validate_update(new, old)]
    assert found[:2] == [
        'spec.driver: Invalid value: "e.example.com": field is immutable',
        'spec.pool.name: Invalid value: "q": field is immutable',
    ]
    assert found[2].startswith("spec.nodeName: Invalid value")


def request(**exactly: Any) -> Object:
    return {"name": "r", "exactly": {"deviceClassName": "gpu", **exactly}}


@pytest.mark.parametrize(
    ("devices", "fault"),
    [
        ({"requests": [request()]}, ""),
        ({"requests": [{"name": "r"}]}, "requests[0]: Required value: exactly one of `exactly` or `firstAvailable`"),
        ({"requests": [{**request(), "firstAvailable": [{"name": "s", "deviceClassName": "g"}]}]},
         'requests[0]: Invalid value: "{`exactly`, `firstAvailable`}": exactly one of'),
        ({"requests": [request(), request()]}, 'requests[1]: Duplicate value: "r"'),
        ({"requests": [request()] * 33}, "requests: Too many: 33: must have at most 32 items"),
        ({"requests": [request(deviceClassName="")]}, "requests[0].exactly.deviceClassName: Required value"),
        ({"requests": [request(allocationMode="All", count=1)]},
         "requests[0].exactly.count: Invalid value: 1: must not be specified when allocationMode is 'All'"),
        ({"requests": [request(allocationMode="ExactCount", count=-1)]},
         "requests[0].exactly.count: Invalid value: -1: must be greater than zero"),
        ({"requests": [request(allocationMode="Some")]},
         'requests[0].exactly.allocationMode: Unsupported value: "Some": supported values: "All", "ExactCount"'),
        ({"requests": [request(tolerations=[{"key": "k", "operator": "Exists", "value": "v"}])]},
         'requests[0].exactly.tolerations[0].value: Invalid value: "v": must be empty for operator `Exists`'),
        ({"requests": [request(tolerations=[{}])]}, ""),
        ({"requests": [request(selectors=[{"cel": {"expression": "?!"}}])]},
         'requests[0].exactly.selectors[0].cel.expression: Invalid value: "?!": compilation failed: ERROR:'),
        ({"requests": [request()], "constraints": [{"requests": ["q"], "matchAttribute": "d/x"}]},
         'constraints[0].requests[0]: Invalid value: "q": must be the name of a request in the claim'),
        ({"requests": [request()], "constraints": [{}]}, "constraints[0]: Required value"),
        ({"requests": [request()], "constraints": [{"matchAttribute": "x"}]},
         'constraints[0].matchAttribute: Invalid value: "x": a fully qualified name must be a domain and a name'),
        ({"requests": [request()], "config": [{"opaque": {"driver": "d", "parameters": {"a": "x" * 11000}}}]},
         "config[0].opaque.parameters: Too long: may not be more than 10240 bytes"),
    ],
)  # fmt: skip
def test_claims(devices: Object, fault: str) -> None:
    found = created(row("resourceclaims"), {"devices": devices})[1]
    assert len(found) == bool(fault), found
    assert not fault or found[0].startswith(f"spec.devices.{fault}")
    inner = created(row("resourceclaimtemplates"), {"spec": {"devices": devices}})[1]
    assert inner == [f"spec.{each}" for each in found]


def test_what_a_claim_leaves_open_is_filled() -> None:
    obj, _ = created(row("resourceclaims"), {"devices": {"requests": [request(tolerations=[{"key": "k"}])]}})
    assert obj["spec"]["devices"]["requests"][0]["exactly"] == {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": 1,
        "tolerations": [{"key": "k", "operator": "Equal"}],
    }


def test_admin_access_is_for_namespaces_that_are_marked() -> None:
    claims = row("resourceclaims")
    obj, _ = created(claims, {"devices": {"requests": [request(adminAccess=True)]}})
    (cause,) = claims.strategy.check_namespace(obj, {"metadata": {}})
    assert cause.field == "spec.devices.requests[0].adminAccess"
    templates = row("resourceclaimtemplates")
    obj, _ = created(templates, {"spec": {"devices": {"requests": [request(adminAccess=True)]}}})
    (cause,) = templates.strategy.check_namespace(obj, {"metadata": {}})
    assert cause.field == "spec.devices.requests[0].adminAccess", "upstream's path lacks the template's spec"
    marked = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    assert claims.strategy.check_namespace(obj, marked) == []


RESULT = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "a"}
POD = {"resource": "pods", "name": "p", "uid": "u"}


def status_faults(status: Object, before: Object, **metadata: Any) -> list[str]:
    claims = row("resourceclaims")
    base = body(claims, {"devices": {"requests": [request()]}})
    base["metadata"].update(metadata)
    causes = claims.strategy.validate_status({**base, "status": status}, {**base, "status": before})
    return [f"{cause.field.removeprefix('status.')}: {cause.message}" for cause in causes]


def test_parameters_of_a_claim_and_of_its_allocation_do_not_change_from_one_to_true() -> None:
    def opaque(value: Any) -> Object:
        return {"opaque": {"driver": "d.example.com", "parameters": {"a": value}}}

    claims = row("resourceclaims")
    old, new = (body(claims, {"devices": {"config": [opaque(value)]}}) for value in (1, True))
    assert claims.strategy.validate_update(old, old) == []
    assert [cause.field for cause in claims.strategy.validate_update(new, old)] == ["spec"]
    one, other = ({"devices": {"config": [{"source": "FromClaim", **opaque(value)}]}} for value in (1, True))
    assert status_faults({"allocation": one}, {"allocation": one}) == []
    assert status_faults({"allocation": other}, {"allocation": one})[0].endswith("field is immutable")


def test_an_allocation_is_made_once() -> None:
    allocation = {"devices": {"results": [RESULT]}}
    other = {"devices": {"results": [{**RESULT, "device": "b"}]}}
    assert status_faults({"allocation": allocation}, {}) == []
    assert status_faults({}, {"allocation": allocation}) == []
    assert status_faults({"allocation": other}, {"allocation": allocation})[0].endswith("field is immutable")
    assert status_faults({"allocation": {"devices": {"results": [{**RESULT, "request": "q"}]}}}, {})[0].startswith(
        'allocation.devices.results[0].request: Invalid value: "q"'
    )


def test_the_nodes_of_an_allocation() -> None:
    def faults(selector: Object) -> list[str]:
        return status_faults({"allocation": {"devices": {"results": [RESULT]}, "nodeSelector": selector}}, {})

    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    assert faults({"nodeSelectorTerms": [term, term]}) == []
    assert [fault.startswith("allocation.nodeSelector.nodeSelectorTerms: Required") for fault in faults({})] == [True]
    found = [fault.split(": Invalid")[0] for fault in faults(ODD)]
    assert found == [
        f"allocation.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].{key}" for key in ("operator", "key")
    ]


def test_names_of_attributes() -> None:
    def faults(name: str) -> list[str]:
        devices = {"requests": [request()], "constraints": [{"matchAttribute": name}]}
        found = created(row("resourceclaims"), {"devices": devices})[1]
        return [fault.removeprefix("spec.devices.constraints[0].matchAttribute: ")[:41] for fault in found]

    too_long, no_domain = "Too long: may not be more than 32 bytes", "a fully qual"
    assert faults("d.example.com/" + "x" * 33) == [too_long]
    assert [fault == too_long for fault in faults("x" * 33)] == [True, False]
    assert [no_domain in fault for fault in faults("..")] == [False, True]
    assert faults("D_/x") == ['Invalid value: "D_": a lowercase RFC 1123']
    assert faults("D.e/x") == []


def test_who_a_claim_is_reserved_for() -> None:
    allocation = {"devices": {"results": [RESULT]}}
    assert status_faults({"reservedFor": [POD]}, {}) == [
        "reservedFor: Forbidden: may not be specified when `allocated` is not set"
    ]
    status = {"allocation": allocation, "reservedFor": [POD]}
    assert status_faults(status, {"allocation": allocation}, deletionTimestamp="2026-01-01T00:00:00Z") == [
        "reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` are "
        "set"
    ]
    many = [{**POD, "uid": str(number)} for number in range(257)]
    assert status_faults({"allocation": allocation, "reservedFor": many}, {"allocation": allocation}) == [
        "reservedFor: Too many: 257: must have at most 256 items"
    ]


def test_drivers_speak_of_allocated_devices_only() -> None:
    claims = row("resourceclaims")
    old = body(claims, {"devices": {}})
    mine = {name: RESULT[name] for name in ("driver", "pool", "device")}
    new = {
        **old,
        "status": {"allocation": {"devices": {"results": [RESULT]}}, "devices": [mine, {**mine, "device": "z"}]},
    }
    causes = claims.strategy.validate_status(new, old)
    assert ("status.devices[1]", "FieldValueInvalid") in [(cause.field, cause.reason) for cause in causes]
    ended = {**new, "status": {**new["status"], "devices": [mine], "allocation": {"devices": {"results": []}}}}
    claims.strategy.prepare_status(ended, new)
    assert "devices" not in ended["status"]
    data = {**mine, "networkData": {"ips": ["10.0.0.1/33"], "interfaceName": "e" * 257}}
    assert len(status_faults({"devices": [data]}, {})) == 3


@pytest.mark.parametrize("name", ["nvidia.com/gpu", "example.com/a_b.c"])
def test_extended_resources_of_a_class(name: str) -> None:
    assert created(row("deviceclasses"), {"extendedResourceName": name})[1] == []


@pytest.mark.parametrize(
    "name", ["gpu", "kubernetes.io/gpu", "x.kubernetes.io/gpu", "requests.example.com/gpu", "a/b/c", ""]
)
def test_no_extended_resources(name: str) -> None:
    assert created(row("deviceclasses"), {"extendedResourceName": name})[1] == [
        f'spec.extendedResourceName: Invalid value: "{name}": must be a valid extended resource name'
    ]


exact = st.fixed_dictionaries(
    {"deviceClassName": st.sampled_from(["gpu", "nic"])},
    optional={
        "count": st.integers(1, 3),
        "selectors": st.just([{"cel": {"expression": "true"}}]),
    },
)
requests = st.lists(
    st.builds(lambda part: {"name": "r", "exactly": part}, exact)
    | st.builds(lambda part: {"name": "r", "firstAvailable": [{"name": "s", **part}]}, exact),
    max_size=3,
)
plain_devices = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("ab")},
        optional={
            "attributes": st.just({"x": {"int": 1}}),
            "capacity": st.just({"c": {"value": "1"}}),
            "taints": st.just([LABELLED]),
        },
    ),
    max_size=3,
)


@given(requests, plain_devices)
def test_older_versions_show_and_store_the_same(asked: list[Object], found: list[Object]) -> None:
    shown_as: dict[str, Object] = {
        "resourceclaims": {"devices": {"requests": asked}},
        "resourceclaimtemplates": {"spec": {"devices": {"requests": asked}}},
        "resourceslices": {**SLICE, "devices": found},
        "deviceclasses": {"selectors": []},
    }
    for plural, spec in shown_as.items():
        for version in ("v1beta1", "v1beta2"):
            old, stored, hub = row(plural, version), body(row(plural), spec), row(plural).shape
            assert hub is not None
            clean(stored, hub)
            shown = shown_by(old, stored)
            assert shown["apiVersion"] == f"{GROUP}/{version}"
            assert old.shape is not None
            assert clean(copy.deepcopy(shown), old.shape) == []
            again = old.converter.to_stored(shown)
            clean(again, hub)
            assert again == stored


def shown_by(resource: Served, stored: Object) -> Object:
    shown = view(resource, Stored("x", 7, encode_object(stored))).obj
    del shown["metadata"]["resourceVersion"]
    return shown


def test_errors_in_older_versions_have_paths_of_v1() -> None:
    spec = {**SLICE, "devices": [{"name": "a", "basic": {"attributes": {"x": {"int": 1, "bool": True}}}}]}
    (fault,) = created(row("resourceslices", "v1beta1"), spec)[1]
    assert fault.startswith("spec.devices[0].attributes[x]: Invalid value")
    spec = {"devices": {"requests": [{"name": "r", "deviceClassName": "gpu", "count": -1}]}}
    (fault,) = created(row("resourceclaims", "v1beta1"), spec)[1]
    assert fault.startswith("spec.devices.requests[0].exactly.count")


def test_what_is_accepted_can_be_read() -> None:
    rules = row("devicetaintrules", "v1beta2")
    rule, faults = created(rules, {"deviceSelector": {}, "taint": LABELLED})
    assert faults == []
    assert rule_of(rule).selector is not None
    assert rule_of(created(rules, {"taint": LABELLED})[0]).selector is None
    patch, _ = created(
        row("resourceslicepatches", "v1alpha3"),
        {"devices": {"attributes": {"d/x": {"null": {}}}, "taints": [LABELLED]}},
    )
    assert patch_of(patch).attributes == {"d/x": None}
    devices = {"attributes": {"d/x": {"int": 1, "null": None}}}
    unset, faults = created(row("resourceslicepatches", "v1alpha3"), {"devices": devices})
    assert faults == []
    assert patch_of(unset).attributes["d/x"] == Attribute("int", 1), "JSON null sets no member"
    assert patch_of({**unset, "spec": {"devices": devices}}).attributes["d/x"] == Attribute("int", 1)
    assert slice_of(created(row("resourceslices"), SLICE)[0]).pool == "n/p"
    assert class_of(created(row("deviceclasses"), {})[0]).selectors == ()
    assert in_version(rules, "v1alpha3").stored_as == "devicetaintrules.resource.k8s.io"


def test_status_of_a_device_that_is_not_allocated_is_an_error() -> None:
    claims = row("resourceclaims")
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 0}}]}}
    claim, faults = created(claims, spec)
    assert faults == []
    assert claim["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1, "upstream's default of 0"
    device = {"driver": "d.example.com", "pool": "p", "device": "x"}
    allocation = {"devices": {"results": [{"request": "r", **device}]}}
    for status in ({"devices": [device]}, {"allocation": allocation, "devices": [{**device, "device": "y"}]}):
        causes = status_causes({**claim, "status": status}, claim)
        assert [cause.field for cause in causes] == ["status.devices[0]"]
        assert "must be an allocated device in the claim" in causes[0].message
    assert status_causes({**claim, "status": {"allocation": allocation, "devices": [device]}}, claim) == []
