"""Where slices are: by driver, pool and device name. A filter's slices are found in the smallest of these sets."""

from collections.abc import Iterable, Mapping

from protocols.dra.types import Filter, Slice

Names = dict[str, None]
"""Of slices, in the order in which they came."""
_NONE: Names = {}


class Places:
    def __init__(self) -> None:
        self._by_driver: dict[str, Names] = {}
        self._by_pool: dict[str, Names] = {}
        self._by_device: dict[str, Names] = {}

    def add(self, each: Slice) -> None:
        self._by_driver.setdefault(each.driver, {})[each.name] = None
        self._by_pool.setdefault(each.pool, {})[each.name] = None
        for device in each.devices:
            self._by_device.setdefault(device.name, {})[each.name] = None

    def remove(self, each: Slice) -> None:
        _drop(self._by_driver, each.driver, each.name)
        _drop(self._by_pool, each.pool, each.name)
        for device in each.devices:
            _drop(self._by_device, device.name, each.name)

    def of(self, filter: Filter, slices: Mapping[str, Slice]) -> Iterable[str]:
        """Names of the slices with devices that a filter's names allow."""
        fixed = [
            index.get(name, _NONE)
            for index, name in (
                (self._by_driver, filter.driver),
                (self._by_pool, filter.pool),
                (self._by_device, filter.device),
            )
            if name is not None
        ]
        if not fixed:
            return slices
        smallest = min(fixed, key=len)
        return [name for name in smallest if all(name in names for names in fixed)]


def _drop(index: dict[str, Names], key: str, name: str) -> None:
    names = index.get(key)
    if names is not None:
        names.pop(name, None)
        if not names:
            del index[key]
