"""Compile what a selector reads of a device: attributes and capacities are looked up in the device itself.

A domain that a device does not have reads as an empty map.
"""

from collections.abc import Callable
from typing import Any

from protocols.cel.evaluation.closures import Code, FrameScope, Maker
from protocols.cel.evaluation.tree import Call, Const, Ident, Node, Select
from protocols.cel.functions.operators import MISSING
from protocols.cel.functions.values import NOTHING, Domains, Frame, Optional
from protocols.cel.libraries.quantities import semver
from protocols.cel.text.source import EvaluationError
from protocols.dra.types import VERSION, Attribute, Device

DRIVER, DEVICE = 1, 2
"""Places in the frame."""
VARIABLES = ("driver", "device")
ATTRIBUTES, CAPACITY = "device.attributes", "device.capacity"
Read = Callable[[Frame], Any]


def special(maker: Maker, node: Node, scope: FrameScope) -> Code | None:
    """Compile a read of `device`; None for all else, which the general compiler handles."""
    if isinstance(node, Ident):
        return None if node.name in scope.slots else _whole(node.name)
    if isinstance(node, Select):
        return _entry(node.operand, node.field, scope, node.test)
    if isinstance(node, Call) and len(node.parts) == 2:
        return _call(node, scope)
    return None


def _call(node: Call, scope: FrameScope) -> Code | None:
    one, other = node.parts
    if node.name == "_[_]":
        if (domain := _domain(node, scope)) is not None:
            return Code(_read_domain(*domain), 3)
        name = _text(other)
        return _entry(one, name, scope, False) if name is not None else None
    if node.name in ("_?._", "_[?_]") and (name := _text(other)) is not None:
        domain = _domain(one, scope)
        return Code(_optional(_reader(*domain, name)), 4) if domain is not None else None
    if node.name == "@in" and (name := _text(one)) is not None:
        domain = _domain(other, scope)
        return Code(_present(_reader(*domain, name)), 4) if domain is not None else None
    return None


def _text(node: Node) -> str | None:
    return node.value if isinstance(node, Const) and type(node.value) is str else None


def _domain(node: Node, scope: FrameScope) -> tuple[str, str] | None:
    """Return the map and the domain if the node is `device.attributes["domain"]`."""
    if not isinstance(node, Call) or node.name != "_[_]":
        return None
    one, other = node.parts
    if isinstance(one, Ident) and one.name in (ATTRIBUTES, CAPACITY) and one.name not in scope.slots:
        domain = _text(other)
        return (one.name, domain) if domain is not None else None
    return None


def _entry(operand: Node, name: str, scope: FrameScope, test: bool) -> Code | None:
    domain = _domain(operand, scope)
    if domain is None:
        return None
    return Code(_present(_reader(*domain, name)) if test else _required(*domain, name), 4)


def _reader(map_name: str, domain: str, name: str) -> Read:
    """Return a function that reads an entry, MISSING if there is none."""
    key = f"{domain}/{name}"

    def attribute(frame: Frame) -> Any:
        entry = frame[DEVICE].attributes.get(key)
        if entry is None:
            return MISSING
        return entry.value if entry.kind != VERSION else semver(entry.value)

    def capacity(frame: Frame) -> Any:
        entry = frame[DEVICE].capacity.get(key)
        return MISSING if entry is None else entry.value

    return attribute if map_name == ATTRIBUTES else capacity


def _required(map_name: str, domain: str, name: str) -> Read:
    """Return a function that reads an entry, and raises EvaluationError if there is none."""
    key = f"{domain}/{name}"

    def attribute(frame: Frame) -> Any:
        entry = frame[DEVICE].attributes.get(key)
        if entry is None:
            raise EvaluationError(f"no such key: {name}")
        return entry.value if entry.kind != VERSION else semver(entry.value)

    def capacity(frame: Frame) -> Any:
        entry = frame[DEVICE].capacity.get(key)
        if entry is None:
            raise EvaluationError(f"no such key: {name}")
        return entry.value

    return attribute if map_name == ATTRIBUTES else capacity


def _optional(read: Read) -> Read:
    def run(frame: Frame) -> Optional:
        value = read(frame)
        return NOTHING if value is MISSING else Optional(value)

    return run


def _present(read: Read) -> Read:
    return lambda frame: read(frame) is not MISSING


def _read_domain(map_name: str, domain: str) -> Read:
    prefix = f"{domain}/"
    size = len(prefix)

    def attributes(frame: Frame) -> dict[str, Any]:
        found = frame[DEVICE].attributes
        return {key[size:]: _value_of(found[key]) for key in found if key.startswith(prefix) and "/" not in key[size:]}

    def capacity(frame: Frame) -> dict[str, Any]:
        found = frame[DEVICE].capacity
        return {key[size:]: found[key].value for key in found if key.startswith(prefix) and "/" not in key[size:]}

    return attributes if map_name == ATTRIBUTES else capacity


def _value_of(attribute: Attribute) -> Any:
    return semver(str(attribute.value)) if attribute.kind == VERSION else attribute.value


def _whole(name: str) -> Code | None:
    if name == "device.driver":
        return Code(lambda frame: frame[DRIVER], 2)
    if name == "device.allowMultipleAllocations":
        return Code(lambda frame: frame[DEVICE].extras.shared, 2)
    if name == ATTRIBUTES:
        return Code(lambda frame: _by_domain(frame[DEVICE], attributes=True), 2)
    if name == CAPACITY:
        return Code(lambda frame: _by_domain(frame[DEVICE], attributes=False), 2)
    return None


def _by_domain(device: Device, attributes: bool) -> Domains:
    domains = Domains()
    if attributes:
        for key, attribute in device.attributes.items():
            domain, _, name = key.rpartition("/")
            domains.setdefault(domain, {})[name] = _value_of(attribute)
        return domains
    for key, capacity in device.capacity.items():
        domain, _, name = key.rpartition("/")
        domains.setdefault(domain, {})[name] = capacity.value
    return domains
