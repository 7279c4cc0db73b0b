"""Shared devices: what claims consume of each capacity, of how much. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from protocols.dra.allocator.shares import HeldDevices, held_by_results
from protocols.dra.allocator.types import Amounts
from protocols.dra.decode import qualified
from protocols.dra.pods import consumers, device_of, is_pod, results_of
from protocols.dra.types import Capacity, DeviceId, Slice
from protocols.kinds import views
from protocols.kube.meta import key_of, namespace_of
from protocols.kube.quantity import Quantity
from supervisor.base.terminal import Table
from supervisor.dra.explain import place


class CapacityUse(msgspec.Struct, frozen=True):
    """One capacity of a shared device; amounts are written as in the API."""

    name: str
    used: str
    """Capacity that claims consume."""
    total: str
    """As patched."""


class Share(msgspec.Struct, frozen=True):
    """A claim's share of a device; `consumes` has amounts by capacity."""

    claim: str
    request: str
    id: str
    consumes: dict[str, str]
    pods: tuple[str, ...]


class SharedDevice(msgspec.Struct, frozen=True):
    """A device that allows multiple allocations, with those it has."""

    device: str
    node: str
    capacity: tuple[CapacityUse, ...]
    shares: tuple[Share, ...]


def shared_devices(slices: Iterable[Slice], objects: Iterable[Any]) -> list[SharedDevice]:
    """Return the devices that allow multiple allocations, by name, with the shares that ResourceClaims have of them."""
    claims = [obj for obj in objects if obj.get("kind") == "ResourceClaim"]
    held = HeldDevices(held_by_results(results_of(claim)) for claim in claims)
    shares: dict[DeviceId, list[Share]] = {}
    for claim in sorted(claims, key=key_of):
        for device_id, share in _shares(claim):
            shares.setdefault(device_id, []).append(share)
    devices = []
    for published in slices:
        for device in published.devices:
            if device.extras.shared:
                id = DeviceId(published.driver, published.pool, device.name)
                use = tuple(capacity_use(device.capacity, held.consumed(id) or {}))
                devices.append(SharedDevice(str(id), place(published, device), use, tuple(shares.get(id, ()))))
    return sorted(devices, key=lambda each: each.device)


def _shares(claim: views.ResourceClaim) -> Iterator[tuple[DeviceId, Share]]:
    pods = tuple(f"{namespace_of(claim)}/{consumer.get('name')}" for consumer in consumers(claim) if is_pod(consumer))
    for result in results_of(claim):
        if id := result.get("shareID"):
            driver = str(result.get("driver"))
            consumed = result.get("consumedCapacity") or {}
            amounts = {qualified(driver, name): str(value) for name, value in sorted(consumed.items())}
            yield device_of(result), Share(key_of(claim), str(result.get("request")), str(id), amounts, pods)


def capacity_use(capacity: Mapping[str, Capacity], consumed: Amounts) -> Iterator[CapacityUse]:
    """Yield the use of each capacity, sorted; `consumed` has nano-units by name."""
    for name, total in sorted(capacity.items()):
        used = Quantity(consumed.get(name, 0), total.value.format)
        yield CapacityUse(name, str(used), str(total.value))


HEADER = ("DEVICE", "NODE", "CAPACITY", "USED", "TOTAL", "CLAIM", "SHARE", "CONSUMES", "PODS")


def shares_table(found: Iterable[SharedDevice]) -> Table:
    """Return a table with a row for each capacity and share."""
    return Table(HEADER, [row for device in found for row in _rows(device)])


def _rows(each: SharedDevice) -> Iterator[tuple[str, ...]]:
    """A device has as many lines as it has shares or capacities, whichever are more."""
    for at in range(max(1, len(each.capacity), len(each.shares))):
        first = (each.device, each.node) if at == 0 else ("", "")
        use = each.capacity[at] if at < len(each.capacity) else None
        share = each.shares[at] if at < len(each.shares) else None
        yield (*first, *((use.name, use.used, use.total) if use else ("", "", "")), *_share_cells(share))


def _share_cells(share: Share | None) -> tuple[str, ...]:
    if share is None:
        return "", "", "", ""
    consumes = ", ".join(f"{name.rpartition('/')[2]} {amount}" for name, amount in share.consumes.items())
    return f"{share.claim} {share.request}", share.id[:8], consumes or "nothing", ", ".join(share.pods) or "-"
