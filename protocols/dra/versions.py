"""Slices and claims of resource.k8s.io in the forms of its versions.

`v1beta2` equals v1, v1beta1 wraps devices and flattens requests. Pure: what is no map or list stays out, nothing
is checked.
"""

from collections.abc import Callable

from protocols.kube.meta import Object
from protocols.kube.objects import mapping, rows

Convert = Callable[[Object], Object]
GROUP = "resource.k8s.io"
FLAT = ("deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity")


def same(obj: Object) -> Object:
    """Return the object as it is: the converter of v1 and v1beta2."""
    return obj


def wrapped_devices(obj: Object) -> Object:
    """Return a slice as v1beta1 has it."""
    return _with_devices(obj, lambda device: {"name": device.get("name"), "basic": _but(device, "name")})


def plain_devices(obj: Object) -> Object:
    """Return a v1beta1 slice in the form of v1: the fields of `basic` stand in the device itself."""
    return _with_devices(obj, lambda device: {**_but(device, "basic"), **mapping(device.get("basic"))})


def _with_devices(obj: Object, change: Convert) -> Object:
    spec = mapping(obj.get("spec"))
    if not isinstance(spec.get("devices"), list):
        return obj
    return {**obj, "spec": {**spec, "devices": [change(device) for device in rows(spec["devices"])]}}


def flat_requests(obj: Object) -> Object:
    """Return a claim as v1beta1 has it."""

    def flat(request: Object) -> Object:
        return {**_but(request, "exactly"), **NO_CLASS, **mapping(request.get("exactly"))}

    return _with_requests(obj, flat)


NO_CLASS = {"deviceClassName": ""}
"""A field that v1beta1 always has."""


def exact_requests(obj: Object) -> Object:
    """Move the fields of flat v1beta1 requests below `exactly`, for requests that have any."""
    return _with_requests(obj, _exact)


def _exact(request: Object) -> Object:
    exactly = {name: request[name] for name in FLAT if request.get(name)}
    rest = {name: value for name, value in request.items() if name not in FLAT}
    return {**rest, "exactly": exactly} if exactly else rest


def _with_requests(obj: Object, change: Convert) -> Object:
    spec = mapping(obj.get("spec"))
    devices = mapping(spec.get("devices"))
    if not isinstance(devices.get("requests"), list):
        return obj
    requests = [change(request) for request in rows(devices["requests"])]
    return {**obj, "spec": {**spec, "devices": {**devices, "requests": requests}}}


def in_template(change: Convert) -> Convert:
    """Return the converter of a ResourceClaimTemplate for one of a ResourceClaim."""

    def changed(obj: Object) -> Object:
        spec = mapping(obj.get("spec"))
        if not isinstance(spec.get("spec"), dict):
            return obj
        return {**obj, "spec": {**spec, "spec": change({"spec": spec["spec"]})["spec"]}}

    return changed


def _but(obj: Object, name: str) -> Object:
    return {key: value for key, value in obj.items() if key != name}


def as_v1(obj: Object) -> Object:
    """Return an object of v1, v1beta2 or v1beta1 in the form of v1; objects of other versions as they are."""
    if obj.get("apiVersion") not in (f"{GROUP}/v1beta1", f"{GROUP}/v1beta2"):
        return obj
    flat = STORED.get(str(obj.get("kind")), same) if obj["apiVersion"] == f"{GROUP}/v1beta1" else same
    return {**flat(obj), "apiVersion": f"{GROUP}/v1"}


STORED: dict[str, Convert] = {
    "ResourceSlice": plain_devices,
    "ResourceClaim": exact_requests,
    "ResourceClaimTemplate": in_template(exact_requests),
}
"""Conversions from v1beta1 to v1; kinds without one are the same in both."""
