"""Events for shared devices whose capacity was lowered below what claims consume. Pure."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from protocols.dra.allocator import Amounts
from protocols.dra.tracker.faults import SliceChange
from protocols.dra.types import Device, DeviceId, Slice
from protocols.kinds.table import RESOURCESLICES
from protocols.kube.meta import Object
from protocols.kube.quantity import Quantity

REASON = "DeviceCapacityExceeded"
Consumed = Callable[[DeviceId], Amounts | None]


class _ExcessWarning(NamedTuple):
    slice: Object
    """The slice as an event refers to it."""
    message: str


def warnings_of(change: SliceChange, consumed: Consumed) -> Iterator[_ExcessWarning]:
    """Yield a warning for each device of a changed slice that changed to less than its shares consume."""
    if change.new is None or not any(device.extras.shared for device in change.new.devices):
        return
    before = {id(device) for device in change.old.devices} if change.old is not None else set()
    for device in change.new.devices:
        if device.extras.shared and id(device) not in before:
            for text in _excesses(change.new, device, consumed):
                yield _ExcessWarning(_reference(change.new), text)


def _excesses(slice_: Slice, device: Device, consumed: Consumed) -> Iterator[str]:
    device_id = DeviceId(slice_.driver, slice_.pool, device.name)
    for name, amount in sorted((consumed(device_id) or {}).items()):
        total = device.capacity[name].value if name in device.capacity else Quantity(0)
        if amount > total.nanos:
            yield (
                f"device {device_id}: claims consume {Quantity(amount, total.format)} of {name}, which is {total} now;"
                f" nothing more is allocated until {Quantity(amount - total.nanos, total.format)} are free,"
                " and nothing is evicted"
            )


def _reference(slice_: Slice) -> Object:
    return {**RESOURCESLICES.type_meta, "metadata": {"name": slice_.name, "uid": slice_.uid}}
