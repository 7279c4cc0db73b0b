"""Health that people force on devices of drivers (`nodeplane chaos device`), whatever these say. Pure."""

from collections.abc import Iterable

from actors.devices.dra.types import DeviceName
from actors.devices.errors import InvalidHealth, UnknownDevice
from actors.devices.ledger.state import Override
from protocols.messages.devices import HEALTHY, UNHEALTHY, UNKNOWN

WORDS = {"healthy": HEALTHY, "unhealthy": UNHEALTHY, "unknown": UNKNOWN}


class Forced:
    """Bounded by the devices there are: only such that are known are forced."""

    def __init__(self, orders: Iterable[Override] = ()) -> None:
        self._orders = {named(order.id): order.health for order in orders}

    def of(self, name: DeviceName) -> str | None:
        """None: what its driver says."""
        return self._orders.get(name)

    def put(self, name: DeviceName, health: str | None) -> str | None:
        """Returns what was forced before."""
        before = self._orders.pop(name, None)
        if health is not None:
            self._orders[name] = health
        return before

    def orders(self) -> tuple[Override, ...]:
        """As they outlive the process: of no resource."""
        return tuple(Override("", name.text, health) for name, health in self._orders.items())


def forced_health(word: str) -> str | None:
    """Of an order; None ends it. Raises InvalidHealth."""
    if word and word not in WORDS:
        raise InvalidHealth(f'health "{word}" does not exist; use {", ".join(WORDS)} or nothing')
    return WORDS.get(word)


def named(text: str) -> DeviceName:
    """From DRIVER/POOL/DEVICE; a pool's name may have slashes. Raises UnknownDevice."""
    driver, _, rest = text.partition("/")
    pool, _, device = rest.rpartition("/")
    if not (driver and pool and device):
        raise UnknownDevice(f"{text} names no device; a driver's device is DRIVER/POOL/DEVICE")
    return DeviceName(driver, pool, device)
