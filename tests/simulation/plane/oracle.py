"""What must hold between control and nodes, during the run and at its end; each side's own promises, too."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from protocols.kube.meta import Object, meta, version_of
from protocols.lifecycle.pods.resources import milli
from tests.simulation.control.history import REGISTRY, History
from tests.simulation.model import Broken
from tests.simulation.node.machine import CARDS, GPU, NIC, Node
from tests.simulation.node.oracle import EXPECTED_ERRORS, TOLD_S, Oracle
from tests.simulation.node.pods import NAMESPACE, has_ended
from tests.simulation.world.failures import failures

if TYPE_CHECKING:
    from tests.simulation.plane.profile import PlaneProfile

SEEN_S = 1.0
"""Seconds in which clients hear of a change when all is well."""
RESOURCES = "pods", "resourceclaims", "minions", "resourceclaimtemplates", "deviceclasses", "resourceslices"
Stored = dict[str, dict[str, Any]]


def check(profile: "PlaneProfile") -> list[Broken]:
    """Return every broken promise."""
    world, history = profile.world, profile.control.history
    found = [Broken("no handler fails", text) for text in profile.sockets.failures]
    found += failures(world, EXPECTED_ERRORS)
    found += history.contradictions()
    found += [broken for supervision in profile.supervisions for broken in supervision.broken]
    found += [*_bound_once(history), *_given_once(history)]
    missing = [name for name in profile.targets if name not in world.processes]
    if missing:
        return [*found, Broken("converged", f"{missing} do not run")]
    stored = history.stored(*RESOURCES)
    found += _same(profile, stored)
    for node in profile.nodes:
        pods = [pod for pod in stored["pods"].values() if pod["spec"].get("nodeName") == node.name]
        found += Oracle(node, pods, just_bound(history, pods)).check()
        found += _claimed(node, pods, stored["resourceclaims"])
    return [*found, *_published(profile.nodes, stored), *_scheduled(profile.nodes, stored), *_reserved(stored)]


def just_bound(history: History, pods: list[Object]) -> set[str]:
    """Return the uids of the pods without a status of their node whose binding was written a moment ago."""
    unseen = [meta(pod) for pod in pods if "startTime" not in (pod.get("status") or {})]
    return {each["uid"] for each in unseen if not history.has_settled("pods", f"{NAMESPACE}/{each['name']}", TOLD_S)}


def _commits(history: History, resource: str) -> Iterator[tuple[int, str, Any]]:
    """Yield revision, key and object, None for a deletion, of every commit in order."""
    prefix = f"{REGISTRY}{resource}/".encode()
    for (revision, key), value in sorted(history.committed.items()):
        if key.startswith(prefix):
            yield revision, key.decode(), None if value is None else msgspec.json.decode(value)


def _bound_once(history: History) -> Iterator[Broken]:
    bound: dict[str, str] = {}
    for revision, key, pod in _commits(history, "pods"):
        node = pod["spec"].get("nodeName") if pod else None
        if node and bound.setdefault(meta(pod)["uid"], node) != node:
            yield Broken("each pod is bound once", f"{key} to {bound[meta(pod)['uid']]}, at {revision} to {node}")


def _given_once(history: History) -> Iterator[Broken]:
    """No device is allocated to two claims at any revision.

    A scheduler that has not heard of a restore does not know that a claim came back: whoever was second gives the
    device up, and in the end it is one claim's again.
    """
    held: dict[str, set[str]] = {}
    for revision, key, claim in _commits(history, "resourceclaims"):
        held[key] = set(_devices(claim)) if claim else set()
        if revision not in history.unsettled:
            yield from _given_to_others(held, key, revision)
    for key in held:
        yield from _given_to_others(held, key, revision)


def _given_to_others(held: dict[str, set[str]], key: str, revision: int) -> Iterator[Broken]:
    for other, theirs in held.items():
        if other != key and held[key] & theirs:
            yield Broken("nothing is given twice", f"{held[key] & theirs} to {other} and, at {revision}, to {key}")


def _devices(claim: Object) -> list[str]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or []
    return [f"{result['driver']}/{result['pool']}/{result['device']}" for result in results]


def _same(profile: "PlaneProfile", stored: Stored) -> Iterator[Broken]:
    """A client's informers hold what is stored; of pods that end at this moment they are yet to hear."""
    history = profile.control.history
    for plural, informer in profile.world.processes["user"].notes["held"].items():
        held = {key: version_of(obj) for key, obj in informer.items.items()}
        wanted = {key: str(history.revision_of(plural, key)) for key in stored[plural]}
        differ = sorted(key for key in {**held, **wanted} if held.get(key) != wanted.get(key))
        keys = [key for key in differ if history.has_settled(plural, key, SEEN_S)]
        if keys:
            yield Broken("converged", f"user holds {len(held)} of {len(wanted)} {plural}, {keys[:3]} differ")


def _claimed(node: Node, pods: list[Object], claims: dict[str, Any]) -> Iterator[Broken]:
    """What a running pod's claims were allocated is what its node has given it."""
    ledger = node.witness.ledger()
    for pod in pods:
        uid, name = meta(pod)["uid"], meta(pod)["name"]
        if (pod.get("status") or {}).get("phase") != "Running":
            continue
        allocated = sorted(device for claim in _reserved_for(claims, uid) for device in _devices(claim))
        given = sorted(_given(ledger[uid])) if uid in ledger else []
        if allocated != given:
            yield Broken("claims are what the node gave", f"{name}: {allocated} allocated, {given} given")


def _given(allocation: Any) -> set[str]:
    return {
        f"{item.driver}/{item.pool}/{item.device}"
        for container in allocation.containers
        for claim in container.claims
        for item in claim.devices
    }


def _reserved_for(claims: dict[str, Any], uid: str) -> list[Object]:
    return [
        claim
        for claim in claims.values()
        if any(each["uid"] == uid for each in (claim.get("status") or {}).get("reservedFor") or ())
    ]


def _reserved(stored: Stored) -> Iterator[Broken]:
    """No claim is reserved for a pod that is gone or has ended."""
    alive = {meta(pod)["uid"] for pod in stored["pods"].values() if not has_ended(pod)}
    for key, claim in stored["resourceclaims"].items():
        for each in (claim.get("status") or {}).get("reservedFor") or ():
            if each["uid"] not in alive:
                yield Broken("converged", f"claim {key} is reserved for {each['name']}, which is gone or has ended")


def _published(nodes: list[Node], stored: Stored) -> Iterator[Broken]:
    """The devices of each driver are in the API, if their node is."""
    for name in (node.name for node in nodes if node.name in stored["minions"]):
        specs = [each["spec"] for each in stored["resourceslices"].values() if each["spec"].get("nodeName") == name]
        if (count := sum(len(spec.get("devices") or ()) for spec in specs)) != CARDS:
            yield Broken("devices are published", f"{count} of {CARDS} of {name}")


def _scheduled(nodes: list[Node], stored: Stored) -> Iterator[Broken]:
    """A pod waits only for what no node has.

    A node that a backup took from the API registers with its next heartbeat, up to five minutes later.
    """
    free = {node.name: _free(node, stored) for node in nodes if node.name in stored["minions"]}
    for key, pod in stored["pods"].items():
        if pod["spec"].get("nodeName") or meta(pod).get("deletionTimestamp") or not _has_class(pod, stored):
            continue
        wanted = _asks(pod)
        for name, room in free.items():
            if all(room[each] >= count for each, count in wanted.items()):
                yield Broken("what fits is bound", f"{key} waits for {wanted}, {name} has {room}: {_why(pod)}")


CARD = "card"


def _has_class(pod: Object, stored: Stored) -> bool:
    """Return False if class, template or claim is missing: the load ended before, or a backup took it from the user."""
    claims = pod["spec"].get("resourceClaims") or ()
    named = [claim["resourceClaimTemplateName"] for claim in claims if "resourceClaimTemplateName" in claim]
    made = all(f"{NAMESPACE}/{name}" in stored["resourceclaimtemplates"] for name in named)
    named = [claim["resourceClaimName"] for claim in claims if "resourceClaimName" in claim]
    made = made and all(f"{NAMESPACE}/{name}" in stored["resourceclaims"] for name in named)
    return not claims or (made and CARD in stored["deviceclasses"])


def _why(pod: Object) -> str:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return "; ".join(condition.get("message", "") for condition in conditions if condition["type"] == "PodScheduled")


def _asks(pod: Object) -> dict[str, int]:
    """Return what a pod asks for, of CPU whole ones: the most that it may have during a resize."""
    resources = pod["spec"]["containers"][0]["resources"]
    asks = {each: int(resources["limits"].get(each, 0)) for each in (GPU, NIC)}
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    held = (resources["requests"], *(each.get("allocatedResources") or {} for each in statuses))
    cpu = max(math.ceil(milli(each.get("cpu")) / 1000) for each in held)
    return {**asks, CARD: len(pod["spec"].get("resourceClaims") or ()), "cpu": max(1, cpu), "pods": 1}


def _free(node: Node, stored: Stored) -> dict[str, int]:
    """Count what is free on a node, fewer in doubt: broken devices count as none, each pod as a whole CPU."""
    gpu, nic = (hardware for name, hardware in node.hardware.items() if name != node.driver)
    room = {GPU: len(gpu.healthy), NIC: len(nic.healthy), CARD: CARDS, "cpu": 6, "pods": 100}
    allocated = {device for claim in stored["resourceclaims"].values() for device in _devices(claim)}
    room[CARD] -= sum(f"/{node.name}/" in device for device in allocated)
    room[CARD] -= sum(health != "Healthy" for health in node.hardware[node.driver].health.values())
    for pod in stored["pods"].values():
        if pod["spec"].get("nodeName") == node.name:
            for each, count in _asks(pod).items():
                room[each] -= count if each != CARD else 0
    return room
