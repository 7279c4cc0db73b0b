"""Claims, selectors and names that the allocator's tests share."""

from collections.abc import Callable, Mapping
from typing import Any

from protocols.dra.allocator.claims import Claim, claim_of
from protocols.dra.allocator.types import SelectorFault
from protocols.dra.decode import class_of
from protocols.dra.types import Device
from protocols.kube.meta import Object

DRIVER = "d.example.com"
ANY = class_of({"metadata": {"name": "any"}, "spec": {}})
"""A class of all devices."""


class Words:
    """An engine whose selectors are `ATTRIBUTE=VALUE`, or `fail`."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def matches(self, expression: str, driver: str, device: Device) -> bool:
        self.asked.append(device.name)
        name, _, value = expression.partition("=")
        if name == "fail":
            raise SelectorFault("CEL runtime error: no such key: x")
        attribute = device.attributes.get(f"{driver}/{name}")
        return attribute is not None and str(attribute.value) == value


class Kinds:
    """An engine whose selectors are values of the attribute `kind`."""

    def matches(self, expression: str, driver: str, device: Device) -> bool:
        return device.attributes[f"{driver}/kind"].value == expression


def claim(*requests: Object, name: str = "c", **devices: Any) -> Claim:
    """Return a claim; a request without a name is `r0`, `r1`, ... and a mapping of `exactly` or of `firstAvailable`."""
    return claim_of(claim_object(name, list(map(_request, range(len(requests)), requests)), **devices))


def claim_object(name: str, requests: list[Object], **devices: Any) -> Object:
    metadata = {"name": name, "namespace": "ns", "uid": f"u-{name}"}
    return {"metadata": metadata, "spec": {"devices": {"requests": requests, **devices}}}


def _request(at: int, entry: Object) -> Object:
    if "name" in entry:
        return entry
    return {"name": f"r{at}", **(entry if "firstAvailable" in entry else {"exactly": entry})}


def request_objects(requests: list[list[Any]], subrequest: Callable[[Mapping[str, Any]], Object]) -> list[Object]:
    """Return requests `r0`, `r1`, ... from lists of alternatives `s0`, `s1`, ...; a list of one has none."""
    made: list[Object] = []
    for at, alternatives in enumerate(requests):
        if len(alternatives) == 1:
            made.append({"name": f"r{at}", "exactly": subrequest(alternatives[0])})
        else:
            each = [{"name": f"s{sub}", **subrequest(one)} for sub, one in enumerate(alternatives)]
            made.append({"name": f"r{at}", "firstAvailable": each})
    return made
