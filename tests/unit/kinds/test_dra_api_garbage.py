"""Whatever has the right types is accepted or refused, in every version, never a fault of ours; what is accepted can be
read."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.apiserver.api.stored import Stored, encode_object, view
from protocols.dra.allocator.claims import claim_of
from protocols.dra.decode import class_of, patch_of, rule_of, slice_of
from protocols.kinds.shapes.clean import WrongType, clean
from protocols.kube.meta import Object
from tests.support.dra_rows import SLICE, body, row

SELECTORS = [{"cel": {"expression": "true"}}]
TAINTS = [{"key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}]
TERM = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]}
OPAQUE = {"driver": "d.example.com", "parameters": {"a": 1}}
DEVICE: Object = {
    "name": "a",
    "attributes": {"x": {"int": 1}, "d.example.com/y": {"version": "1.0.0"}},
    "capacity": {"m": {"value": "1Gi", "requestPolicy": {"default": "1", "validRange": {"min": "1", "step": "1"}}}},
    "taints": TAINTS,
    "consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "1"}}}],
    "allowMultipleAllocations": True,
    "bindingConditions": ["a"],
    "bindingFailureConditions": ["b"],
}
REQUEST: Object = {
    "deviceClassName": "gpu",
    "selectors": SELECTORS,
    "allocationMode": "ExactCount",
    "count": 1,
    "tolerations": [{"key": "k", "operator": "Exists"}],
    "capacity": {"requests": {"m": "1"}},
}
DEVICES: Object = {
    "requests": [
        {"name": "r", "exactly": {**REQUEST, "adminAccess": True}},
        {"name": "f", "firstAvailable": [{"name": "s", **REQUEST}]},
    ],
    "constraints": [{"requests": ["r", "f/s"], "matchAttribute": "d.example.com/y"}],
    "config": [{"requests": ["r"], "opaque": OPAQUE}],
}
STATUS: Object = {
    "allocation": {
        "devices": {
            "results": [
                {
                    "request": "r",
                    "driver": "d.example.com",
                    "pool": "p",
                    "device": "a",
                    "tolerations": [{"operator": "Exists"}],
                }
            ],
            "config": [{"source": "FromClaim", "requests": ["r"], "opaque": OPAQUE}],
        },
        "nodeSelector": TERM,
    },
    "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
    "devices": [{"driver": "d.example.com", "pool": "p", "device": "a", "networkData": {"ips": ["10.0.0.1/24"]}}],
}
FILTER = {"driver": "d.example.com", "pool": "p", "device": "a", "deviceClassName": "gpu", "selectors": SELECTORS}
PATCH = {
    "filter": FILTER,
    "priority": 1,
    "attributes": {"d/x": {"null": {}}},
    "capacity": {"d/m": {"value": "1"}},
    "taints": TAINTS,
}
SOUND: dict[str, tuple[str, Object]] = {
    "resourceslices": ("v1", {**SLICE, "devices": [DEVICE]}),
    "deviceclasses": (
        "v1",
        {"selectors": SELECTORS, "config": [{"opaque": OPAQUE}], "extendedResourceName": "a.c/b"},
    ),
    "resourceclaims": ("v1", {"devices": DEVICES}),
    "resourceclaimtemplates": ("v1", {"metadata": {"labels": {}}, "spec": {"devices": DEVICES}}),
    "resourceslicepatches": ("v1alpha3", {"devices": PATCH}),
    "devicetaintrules": ("v1beta2", {"deviceSelector": {"driver": "d.example.com"}, "taint": TAINTS[0]}),
}
READERS: dict[str, Callable[[Object], object]] = {
    "resourceslices": slice_of,
    "deviceclasses": class_of,
    "resourceslicepatches": patch_of,
    "devicetaintrules": rule_of,
    "resourceclaims": claim_of,
}
GARBAGE: list[Any] = [
    None,
    {},
    [],
    "",
    "x",
    "A_b",
    "x" * 300,
    0,
    -1,
    2**63 - 1,
    True,
    False,
    "1Gi",
    [None],
    [{}],
    {"": {}},
    {"a/b/c": None},
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from places(each, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], garbage: Any) -> None:
    for step in path[:-1]:
        value = value[step]
    value[path[-1]] = garbage


@st.composite
def spoiled(draw: st.DrawFn, sound: Object) -> Object:
    found = copy.deepcopy(sound)
    for _ in range(draw(st.integers(0, 3))):
        path = draw(st.sampled_from([path for path in places(found) if path]))
        replaced(found, path, copy.deepcopy(draw(st.sampled_from(GARBAGE))))
    return found


OWN = {"resourceslicepatches": ("v1alpha3",), "devicetaintrules": ("v1beta2", "v1alpha3")}
VERSIONS = [(plural, version) for plural in SOUND for version in OWN.get(plural, ("v1", "v1beta1", "v1beta2"))]


def shown(plural: str, version: str) -> Object:
    """A sound spec, as this version has it."""
    stored, spec = SOUND[plural]
    raw = encode_object(body(row(plural, stored), spec))
    return dict(view(row(plural, version), Stored("x", 1, raw)).obj["spec"])


@pytest.mark.parametrize(("plural", "version"), VERSIONS)
def test_sound_objects_are_accepted(plural: str, version: str) -> None:
    resource = row(plural, version)
    obj = body(resource, shown(plural, version))
    resource.strategy.default(obj)
    resource.strategy.prepare_create(obj)
    assert resource.strategy.validate_create(obj) == []


@settings(max_examples=25)
@pytest.mark.parametrize(("plural", "version"), VERSIONS)
@given(data=st.data())
def test_spoiled_objects_are_reported(plural: str, version: str, data: st.DataObject) -> None:
    resource = row(plural, version)
    obj, old = (body(resource, data.draw(spoiled(shown(plural, version)))) for _ in range(2))
    assert resource.shape is not None
    for each in (obj, old):
        try:
            clean(each, resource.shape)
        except WrongType:
            return
    strategy = resource.strategy
    strategy.default(obj)
    strategy.prepare_create(obj)
    causes = strategy.validate_create(obj)
    if not causes and plural in READERS:
        READERS[plural](resource.converter.to_stored(obj))
    strategy.check_namespace(obj, {"metadata": {}})
    strategy.default(old)
    strategy.prepare_update(obj, old)
    strategy.validate_update(obj, old)


@settings(max_examples=25)
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
@given(data=st.data())
def test_spoiled_statuses_are_reported(version: str, data: st.DataObject) -> None:
    resource = row("resourceclaims", version)
    old = body(resource, shown("resourceclaims", version))
    new = {**copy.deepcopy(old), "status": data.draw(spoiled(STATUS))}
    old["status"] = data.draw(spoiled(STATUS))
    assert resource.shape is not None
    for each in (new, old):
        try:
            clean(each, resource.shape)
        except WrongType:
            return
    resource.strategy.prepare_status(new, old)
    resource.strategy.validate_status(new, old)
