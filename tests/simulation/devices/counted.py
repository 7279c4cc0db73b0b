"""Devices that share counters, and one whose capacity claims share: none of both is ever overdrawn.

Each pool has partitions of one counter set, as of a card that can be cut in several ways, and a device for all. What is
consumed is added up from what claims ask for, by few rules of its own.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from protocols.dra.pods import device_of, results_of
from protocols.kinds.table import PODS, RESOURCECLAIMTEMPLATES
from protocols.kube.meta import Object, name_of, terminating, uid_of
from protocols.kubeclient.client import ApiClient, ClientOptions
from tests.simulation.control.workloads import NODES_COUNT
from tests.simulation.devices.driver import driver_name, make_class, templated
from tests.simulation.devices.ledger import Ledger, runs
from tests.simulation.model import Broken, Main
from tests.simulation.workloads.flow import Written, created, listed, make_namespace, user

PAUSE_S = 0.5
MOST = 12
"""Pods at a time."""
UNITS = 4
"""What the counter set of a pool has, and the device for all."""
PARTITIONS = {"whole": 4, "half-0": 2, "half-1": 2, "bit-0": 1, "bit-1": 1}
"""Units that each partition takes."""
ALL = "all"
"""The device whose capacity is shared."""
NAME = "counted"


class Wish(NamedTuple):
    """A kind of template: partitions of so many units (0: any), or so much of the device for all."""

    size: int = 0
    asks: str | None = None
    consumes: int = 0
    """Units of the device for all; the driver serves one or three at a time."""


WISHES = {
    "any": Wish(), "half": Wish(size=2), "whole": Wish(size=4),
    "default": Wish(consumes=1), "one": Wish(asks="1", consumes=1), "two": Wish(asks="2", consumes=3),
}  # fmt: skip


def _partition(name: str, units: int) -> Object:
    uses = {"counterSet": "room", "counters": {"units": {"value": str(units)}}}
    return {"name": name, "attributes": {"units": {"int": units}}, "consumesCounters": [uses]}


_POLICY = {"default": "1", "validValues": ["1", "3"]}
_SHARED = {
    "name": ALL, "allowMultipleAllocations": True, "attributes": {"units": {"int": 0}},
    "capacity": {"units": {"value": str(UNITS), "requestPolicy": _POLICY}},
}  # fmt: skip
SLICES: tuple[Object, Object] = (
    {"sharedCounters": [{"name": "room", "counters": {"units": {"value": str(UNITS)}}}]},
    {"devices": [*(_partition(name, units) for name, units in PARTITIONS.items()), _SHARED]},
)
"""What the driver publishes of each pool."""


class Counted:
    name = NAME

    def __init__(self) -> None:
        self._made = 0

    def users(self, options: ClientOptions) -> dict[str, Main]:
        return {f"consumer-{number}": user(options, self._step, PAUSE_S) for number in range(2)}

    async def _step(self, client: ApiClient, chance: random.Random) -> None:
        await make_namespace(client, self.name)
        await make_class(client, self.name)
        for kind, wish in WISHES.items():
            spec = {"devices": {"requests": [{"name": "r", "exactly": _request(wish)}]}}
            await created(client, RESOURCECLAIMTEMPLATES, {"spec": {"spec": spec}}, kind, self.name)
        pods = await listed(client, PODS, self.name)
        if len(pods) < MOST:
            self._made += 1
            spec = templated(chance.choice(list(WISHES)))
            await created(client, PODS, {"spec": spec}, f"pod-{self._made}", self.name)
        else:
            pod = chance.choice(pods)
            await client.delete(PODS, name_of(pod), self.name, uid=uid_of(pod))

    def check(self, commits: Sequence[Written]) -> Iterator[Broken]:
        ledger = Ledger()
        for each in commits:
            yield from ledger.take(each)
            if each.resource == "resourceclaims" and each.obj is not None:
                yield from _consumed(each)
                yield from _overdrawn(each, ledger)
        yield from ledger.at_end()
        for name, pod in ledger.pods.items():
            if terminating(pod):
                yield Broken("converged", f"{name} is still to end")
            elif not runs(pod) and (pool := _fitting(ledger, _wish(pod))):
                yield Broken("converged", f"{name} waits, and fits in {pool}: {pod.get('status')}")


def _request(wish: Wish) -> Object:
    attribute = f'device.attributes["{driver_name(NAME)}"].units'
    text = f"{attribute} == {wish.size}" if wish.size or wish.consumes else f"{attribute} > 0"
    capacity = {"capacity": {"requests": {"units": wish.asks}}} if wish.asks else {}
    return {"deviceClassName": NAME, "selectors": [{"cel": {"expression": text}}], **capacity}


def _wish(pod: Object) -> Wish:
    return WISHES[pod["spec"]["resourceClaims"][0]["resourceClaimTemplateName"]]


class Use:
    """What claims have of each pool."""

    def __init__(self, ledger: Ledger) -> None:
        self.partitions: dict[str, list[str]] = {f"{NAME}-n{node}": [] for node in range(NODES_COUNT)}
        self.shared = dict.fromkeys(self.partitions, 0)
        for claim in ledger.claims.values():
            for result in results_of(claim):
                device = device_of(result)
                if device.device == ALL:
                    self.shared[device.pool] += _share_of(claim)
                else:
                    self.partitions[device.pool].append(device.device)

    def units(self, pool: str) -> int:
        return sum(PARTITIONS[name] for name in self.partitions[pool])


def _share_of(claim: Any) -> int:
    """Return what a claim of the device for all consumes, by what it asks for."""
    requests = claim["spec"]["devices"]["requests"][0]["exactly"].get("capacity", {}).get("requests", {})
    return next(wish.consumes for wish in WISHES.values() if wish.consumes and wish.asks == requests.get("units"))


def _consumed(each: Written) -> Iterator[Broken]:
    """A share is written with what it consumes."""
    claim: Any = each.last
    for result in results_of(claim):
        wanted = [str(_share_of(claim))] if device_of(result).device == ALL else []
        written = [str(amount) for amount in (result.get("consumedCapacity") or {}).values()]
        if wanted != written:
            yield Broken("a share is what was asked for", f"{each.name} at {each.revision}: {written} of {wanted}")


def _overdrawn(each: Written, ledger: Ledger) -> Iterator[Broken]:
    use = Use(ledger)
    for pool, shared in use.shared.items():
        if use.units(pool) > UNITS:
            yield Broken("no counter is overdrawn", f"{pool} at {each.revision}: {use.partitions[pool]}")
        if shared > UNITS:
            yield Broken("no capacity is overdrawn", f"{pool} at {each.revision}: {shared} units")


def _fitting(ledger: Ledger, wish: Wish) -> str:
    """Return a pool with room for one more claim, empty if there is none."""
    use = Use(ledger)
    for pool, shared in use.shared.items():
        sizes = [size for name, size in PARTITIONS.items() if name not in use.partitions[pool]]
        least = min((size for size in sizes if wish.size in (0, size)), default=UNITS + 1)
        if shared + wish.consumes <= UNITS if wish.consumes else use.units(pool) + least <= UNITS:
            return pool
    return ""
