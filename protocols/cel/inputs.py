"""What a program wants to know of a device, and nothing else: the engine copies all that it is given."""

import functools
from typing import Any, Protocol

from protocols.cel.opaque import encode_quantity, encode_version
from protocols.cel.rewrite import Domain, Rewritten
from protocols.dra.types import VERSION, Device


class Input(Protocol):
    """One variable of a program."""

    variable: str

    def read(self, driver: str, device: Device) -> Any: ...


class _Driver:
    variable = "device.driver"

    def read(self, driver: str, device: Device) -> str:
        return driver


class _Shared:
    variable = "device.allowMultipleAllocations"

    def read(self, driver: str, device: Device) -> bool:
        return device.extras.shared


class _Entries:
    """Known entries of one domain."""

    def __init__(self, domain: Domain, ids: set[str]) -> None:
        self.variable = domain.variable
        self._capacity = domain.map == "capacity"
        self._names = tuple((f"{domain.domain}/{each}", each) for each in sorted(ids))

    def read(self, driver: str, device: Device) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self._capacity:
            for name, each in self._names:
                if (amount := device.capacity.get(name)) is not None:
                    found[each] = encode_quantity(amount.value)
            return found
        for name, each in self._names:
            if (attribute := device.attributes.get(name)) is not None:
                value = attribute.value
                found[each] = encode_version(str(value)) if attribute.kind == VERSION else value
        return found


class _Domain:
    """All entries of one domain."""

    def __init__(self, domain: Domain) -> None:
        self.variable = domain.variable
        self._map = domain.map
        self._domain = domain.domain

    def read(self, driver: str, device: Device) -> dict[str, Any]:
        return _by_domain(self._map, device).get(self._domain, {})


class _Whole:
    """All domains."""

    def __init__(self, name: str) -> None:
        self.variable = f"device.{name}"
        self._map = name

    def read(self, driver: str, device: Device) -> dict[str, Any]:
        return _by_domain(self._map, device)


def _by_domain(map_name: str, device: Device) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    if map_name == "capacity":
        for name, amount in device.capacity.items():
            domain, each = _parts(name)
            found.setdefault(domain, {})[each] = encode_quantity(amount.value)
        return found
    for name, attribute in device.attributes.items():
        domain, each = _parts(name)
        value = attribute.value
        found.setdefault(domain, {})[each] = encode_version(str(value)) if attribute.kind == VERSION else value
    return found


@functools.lru_cache(maxsize=8192)
def _parts(name: str) -> tuple[str, str]:
    domain, _, each = name.rpartition("/")
    return domain, each


_FIELDS: dict[str, Input] = {"driver": _Driver(), "allowMultipleAllocations": _Shared()}


def inputs_of(rewritten: Rewritten) -> tuple[Input, ...]:
    found = [_FIELDS[name] for name in sorted(rewritten.names) if name in _FIELDS]
    found += [_Domain(each) if each.ids is None else _Entries(each, each.ids) for each in rewritten.domains]
    return (*found, *map(_Whole, sorted(rewritten.maps)))
