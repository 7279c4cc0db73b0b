"""Devices that are patched and tainted while their driver publishes them anew, and pods that ask for red ones.

Two administrators write patches and rules, a user creates pods whose claims tolerate nothing, a while, or all.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from protocols.dra.pods import allocation_of, device_of, results_of, used_claims
from protocols.dra.types import Device, Slice
from protocols.kinds.table import (
    DEVICETAINTRULES,
    PODS,
    RESOURCECLAIMTEMPLATES,
    RESOURCESLICEPATCHES,
)
from protocols.kube.meta import Object, condition, meta, name_of, terminating, uid_of
from protocols.kube.taints import Taint, device_seconds_tolerated
from protocols.kube.times import time_or
from protocols.kubeclient.client import ApiClient, ClientOptions
from tests.simulation.control.workloads import NODES_COUNT
from tests.simulation.devices.driver import COLOURS, DEVICES, FLAWS, driver_name, make_class, templated
from tests.simulation.devices.ledger import Ledger, runs
from tests.simulation.devices.merged import COLOUR, Seen, is_red, merged, pool_of
from tests.simulation.model import Broken, Main
from tests.simulation.workloads.flow import Written, created, listed, make_namespace, user
from tests.simulation.world.clocks import EPOCH_S
from tests.simulation.world.world import START

PAUSE_S, USER_PAUSE_S = 1.5, 0.6
NAMES = 4
"""Patches, and as many rules, at a time."""
MOST = 8
"""Pods at a time."""
DELETED = 0.35
"""Share of the steps on what is there that delete it; others change a patch."""
SHOWN_S = 10.0
"""Whoever decides may have seen nothing newer than this."""
CLOCKS_S = 5.5
"""Clocks of two processes differ by as much, with the second to which a taint's time is cut."""
TOLERATED_S = 12
KINDS: dict[str, list[Object]] = {
    "none": [],
    "while": [{"key": "broken", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_S}],
    "ever": [{"operator": "Exists"}],
}
"""Tolerations by the kind of template."""
RULES, SLICES = "devicetaintrules", "resourceslices"
PATCHES = "resourceslicepatches"
EVICTED = "DeletionByDeviceTaintManager"


class Patches:
    name = "patches"

    def __init__(self) -> None:
        self._made = 0

    def users(self, options: ClientOptions) -> dict[str, Main]:
        admins = {f"patcher-{number}": user(options, self._patch, PAUSE_S) for number in range(2)}
        return {**admins, "patched": user(options, self._use, USER_PAUSE_S)}

    async def _patch(self, client: ApiClient, chance: random.Random) -> None:
        resource, make = chance.choice(((RESOURCESLICEPATCHES, _patch), (DEVICETAINTRULES, _rule)))
        name = f"{self.name}-{chance.randrange(NAMES)}"
        spec = make(chance)
        if await created(client, resource, {"spec": spec}, name):
            return
        if chance.random() < DELETED:
            await client.delete(resource, name)
        elif resource is RESOURCESLICEPATCHES:
            held = await client.get(resource, name)
            await client.update(resource, {**held, "spec": spec})

    async def _use(self, client: ApiClient, chance: random.Random) -> None:
        await self._prepare(client)
        pods = await listed(client, PODS, self.name)
        if len(pods) < MOST:
            self._made += 1
            spec = templated(chance.choice(list(KINDS)))
            await created(client, PODS, {"spec": spec}, f"pod-{self._made}", self.name)
        else:
            pod = chance.choice(pods)
            await client.delete(PODS, name_of(pod), self.name, uid=uid_of(pod))

    async def _prepare(self, client: ApiClient) -> None:
        await make_namespace(client, self.name)
        await make_class(client, self.name)
        for kind, tolerations in KINDS.items():
            exactly = {
                "deviceClassName": self.name,
                "selectors": [{"cel": {"expression": is_red(driver_name(self.name))}}],
                "tolerations": tolerations,
            }
            spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
            await created(client, RESOURCECLAIMTEMPLATES, {"spec": {"spec": spec}}, kind, self.name)

    def check(self, commits: Sequence[Written]) -> Iterator[Broken]:
        ledger, views = Ledger(), Views()
        for each in commits:
            views.take(each)
            yield from ledger.take(each)
            if each.resource == "resourceclaims" and each.obj is not None:
                yield from _allocated(each, views)
            elif each.resource == "pods" and _is_evicted(each):
                yield from _evicted(each, ledger, views)
        yield from ledger.at_end()
        yield from _at_end(ledger, views)
        yield from _reported(views.rules)


def _patch(chance: random.Random) -> Object:
    driver = driver_name(Patches.name)
    filter: Object = {"driver": driver}
    if chance.random() < 0.7:
        filter["pool"] = _pool(chance)
    if chance.random() < 0.5:
        filter["device"] = f"d{chance.randrange(DEVICES)}"
    if chance.random() < 0.3:
        filter["deviceClassName"] = Patches.name
    if chance.random() < 0.3:
        filter["selectors"] = [{"cel": {"expression": is_red(driver)}}]
    colours: list[Object | None] = [{"string": colour} for colour in COLOURS]
    colour: Object | None = chance.choice([*colours, {"null": {}}, None, None])
    patch: Object = {"filter": filter, "priority": chance.randrange(3)}
    if colour is not None:
        patch["attributes"] = {f"{driver}/{COLOUR}": colour}
    if colour is None or chance.random() < 0.3:
        patch["taints"] = [_taint(chance)]
    return {"devices": patch}


def _rule(chance: random.Random) -> Object:
    """A rule names a pool or a device of one: other flows' devices are none of its business."""
    selector = {"driver": driver_name(Patches.name), "pool": _pool(chance)}
    if chance.random() < 0.7:
        selector["device"] = f"d{chance.randrange(DEVICES)}"
    return {"deviceSelector": selector, "taint": _taint(chance)}


def _pool(chance: random.Random) -> str:
    return f"{Patches.name}-n{chance.randrange(NODES_COUNT)}"


def _taint(chance: random.Random) -> Object:
    key, effect = chance.choice(FLAWS)
    return {"key": key, "effect": effect}


class Views:
    """What could be seen of slices, patches and rules at each time."""

    def __init__(self) -> None:
        self._states: dict[str, list[tuple[float, dict[str, Object]]]] = {
            resource: [(float("-inf"), {})] for resource in (SLICES, PATCHES, RULES)
        }
        """Of each resource: when a state began, and its objects by name."""

    def take(self, each: Written) -> None:
        if (states := self._states.get(each.resource)) is not None:
            after = {name: obj for name, obj in states[-1][1].items() if name != each.name}
            states.append((each.at, after if each.obj is None else {**after, each.name: each.obj}))

    def now(self) -> dict[tuple[str, str], Seen]:
        return merged(*(states[-1][1] for states in self._states.values()))

    @property
    def rules(self) -> dict[str, Object]:
        return self._states[RULES][-1][1]

    def seen(self, place: tuple[str, str], at: float) -> Iterator[Seen]:
        """Yield each form in which a device was shown in the time before, the newest first.

        Each resource has a watch of its own.
        """
        slices, patches, rules = (self._recent(resource, place[0], at) for resource in self._states)
        for shown in slices:
            for patched in patches:
                for ruled in rules:
                    if found := merged(shown, patched, ruled).get(place):
                        yield found

    def _recent(self, resource: str, pool: str, at: float) -> list[dict[str, Object]]:
        """Return the objects that concern a pool, from now back to the time that may still be seen."""
        found: list[dict[str, Object]] = []
        for began, state in reversed(self._states[resource]):
            ours = {name: obj for name, obj in state.items() if pool_of(obj) in (None, pool)}
            if not found or found[-1] != ours:
                found.append(ours)
            if began <= at - SHOWN_S:
                break
        return found


def _taints(seen: Seen) -> list[Taint]:
    return [Taint(each["key"], "", each["effect"], each.get("timeAdded") or "") for each in seen.taints]


def _fits(seen: Seen, tolerations: Sequence[Mapping[str, Any]]) -> bool:
    return seen.colour == "red" and all(_is_borne(taint, tolerations) for taint in seen.taints)


def _is_borne(taint: Object, tolerations: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if a toleration covers the taint; all of them have the operator Exists."""
    return any({**taint, **_named(each)}.items() == taint.items() for each in tolerations)


def _named(toleration: Mapping[str, Any]) -> Object:
    return {field: toleration[field] for field in ("key", "effect") if field in toleration}


def _tolerations(claim: Object) -> list[Object]:
    return claim["spec"]["devices"]["requests"][0]["exactly"].get("tolerations") or []


def _allocated(each: Written, views: Views) -> Iterator[Broken]:
    """What is allocated anew was red and had no taint that the claim does not tolerate."""
    before: Any = each.before or {}
    claim: Any = each.last
    if allocation_of(before) is not None:
        return
    for result in results_of(claim):
        device, tolerations = device_of(result), _tolerations(claim)
        if not any(_fits(seen, tolerations) for seen in views.seen((device.pool, device.device), each.at)):
            yield Broken("what is allocated fits", f"{each.name} at {each.revision} has {device}")


def _is_evicted(each: Written) -> bool:
    """Return True for the commit with which a pod is marked for its eviction."""
    before, after = (condition(obj or {}, "DisruptionTarget") or {} for obj in (each.before, each.obj))
    return after.get("reason") == EVICTED and before.get("reason") != EVICTED


def _evicted(each: Written, ledger: Ledger, views: Views) -> Iterator[Broken]:
    """A pod goes only for a taint that one of its claims does not tolerate, or no longer."""
    now = EPOCH_S + START + each.at
    for deadline in _deadlines(each.last, ledger, views, each.at):
        if deadline is not None and deadline <= now + CLOCKS_S:
            return
    yield Broken("nobody is evicted before the time", f"{each.name} at {each.revision}")


def _deadlines(pod: Any, ledger: Ledger, views: Views, at: float) -> Iterator[float | None]:
    for claim in map(ledger.claim, used_claims(pod)):
        for device in map(device_of, results_of(claim)):
            for seen in views.seen((device.pool, device.device), at):
                yield from (_deadline(taint, claim) for taint in _taints(seen))


def _deadline(taint: Taint, claim: Object) -> float | None:
    tolerated = device_seconds_tolerated(taint, _tolerations(claim))
    return None if tolerated is None else time_or(taint.added, 0.0) + tolerated


def _at_end(ledger: Ledger, views: Views) -> Iterator[Broken]:
    """Pods whose devices are broken are gone, and those that wait find none."""
    now = views.now()
    held = {device for pod in ledger.pods.values() for device in ledger.devices(pod)}
    free = [seen for (pool, name), seen in now.items() if (driver_name(Patches.name), pool, name) not in held]
    for name, pod in ledger.pods.items():
        if terminating(pod):
            yield Broken("converged", f"{name} is still to end")
        for claim in (ledger.claims.get(used) for used in used_claims(pod)):
            if claim is None:
                yield Broken("converged", f"a claim of {name} is gone")
            elif runs(pod):
                yield from _is_broken(name, claim, now)
            elif any(_fits(seen, _tolerations(claim)) for seen in free):
                yield Broken("converged", f"{name} waits, a device is free for {name_of(claim)}: {pod.get('status')}")
        if not used_claims(pod):
            yield Broken("converged", f"{name} has no claim")


def _reported(rules: Mapping[str, Object]) -> Iterator[Broken]:
    """The status of each rule is that of its newest generation, with nobody left to evict."""
    for name, rule in rules.items():
        shown = condition(rule, "EvictionInProgress") or {}
        if shown.get("observedGeneration") != meta(rule).get("generation") or shown.get("status") != "False":
            yield Broken("converged", f"rule {name} reports {shown}")


def _is_broken(name: str, claim: Any, now: Mapping[tuple[str, str], Seen]) -> Iterator[Broken]:
    for device in map(device_of, results_of(claim)):
        seen = now.get((device.pool, device.device))
        if seen and any(_deadline(taint, claim) is not None for taint in _taints(seen)):
            yield Broken("converged", f"{name} runs with {device}, which is broken: {seen.taints}")


def shown_wrong(
    who: str, slices: Sequence[Slice], stored: Mapping[str, dict[str, Object]], ruled: bool
) -> Iterator[Broken]:
    """Compare the devices that a process holds with those of the stored objects, with or without taints of rules."""
    ours = {
        kind: {key: obj for key, obj in objects.items() if key.startswith(Patches.name)}
        for kind, objects in stored.items()
    }
    wanted = merged(ours[SLICES], ours[PATCHES], ours[RULES] if ruled else {})
    held = {(each.pool, device.name): device for each in slices if each.name in ours[SLICES] for device in each.devices}
    for place in sorted(wanted.keys() | held.keys()):
        shown = _summary(wanted[place]) if place in wanted else None
        seen = _held(held[place]) if place in held else None
        if shown != seen:
            yield Broken("whoever reads devices sees them patched", f"{who} has {place} as {seen}, it is {shown}")


Summary = tuple[str, list[tuple[str, str, str]]]


def _summary(seen: Seen) -> Summary:
    return seen.colour, sorted((taint.key, taint.effect, taint.added) for taint in _taints(seen))


def _held(device: Device) -> Summary:
    colour = device.attributes.get(f"{driver_name(Patches.name)}/{COLOUR}")
    taints = sorted((taint.key, taint.effect, taint.added) for taint in device.taints)
    return str(colour.value) if colour else "", taints
