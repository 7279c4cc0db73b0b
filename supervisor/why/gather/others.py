"""Evidence about a device, plugin, claim or node."""

from contextlib import suppress

import msgspec

from protocols.dra.pods import device_of, has_released_claims, results_of, used_claims
from protocols.errors import NodeplaneError
from protocols.kinds import views
from protocols.kinds.table import NODES, PODS, RESOURCECLAIMS, RESOURCESLICES
from protocols.kube.errors import ApiError
from protocols.kube.meta import key_of, uid_of
from protocols.kube.objects import mapping, rows
from protocols.messages.supervisor import ActorStatus
from protocols.process.texts import listed
from supervisor.base.errors import SupervisorError, UsageError
from supervisor.dra.explain import EVERY, SELECTED
from supervisor.dra.sources import RESOURCES, list_objects
from supervisor.why.gather.device_managers import (
    all_health,
    driver_evidence,
    managers,
    offered_elsewhere,
    plugin_evidence,
)
from supervisor.why.gather.dra import explanations, scheduling, taint_texts
from supervisor.why.gather.pod import events_of
from supervisor.why.gather.sources import (
    DeviceManager,
    SourceReader,
    Sources,
    get,
    here,
    names,
    objects_of,
    simulated,
    unknown,
)
from supervisor.why.model.types import ClaimEvidence, DeviceEvidence, DriverEvidence, NodeEvidence, PluginEvidence
from supervisor.why.others.plugins import NAMED, plugin_sentence

DEVICES = "devices"
"""The process of the device manager."""


async def gather_plugin(sources: Sources, name: str) -> PluginEvidence | DriverEvidence:
    """Return what is known of a resource's plugins, or of a DRA driver. Raises UsageError if nobody knows the name."""
    known: set[str] = set()
    away: list[PluginEvidence | DriverEvidence] = []
    published = await _published(sources, name)
    async for near, manager in managers(sources):
        if manager.kubelet:
            raise UsageError(
                "a kubelet does not report its plugins and drivers; `nodeplane capture --kubelet` records them"
            )
        resources, drivers = manager.resources(), {row.driver.name: row.driver for row in manager.drivers.drivers}
        if name in resources:
            (plugin,) = plugin_evidence(manager, [name], near.now())
            if plugin.connected:
                return plugin
            away.append(await _with_restart(near, plugin))
        elif name in drivers:
            driver = driver_evidence(manager, name, len(published), near.now())
            if drivers[name].connected:
                return driver
            away.insert(0, driver)
        elif published:
            away.append(driver_evidence(manager, name, len(published), near.now()))
        known |= {*resources, *drivers}
    if away:
        first = away[0]
        if isinstance(first, PluginEvidence):
            return first
        elsewhere = sorted({*published} - {"", *here(sources)})
        return msgspec.structs.replace(first, elsewhere=tuple(elsewhere))
    raise await _unknown_plugin(sources, name, sorted(known))


async def _unknown_plugin(sources: Sources, name: str, known: list[str]) -> UsageError:
    nodes, place = list[str](), ""
    with suppress(ApiError):  # of a user who may not list nodes
        nodes = (await offered_elsewhere(sources)).get(name, [])
        place = simulated(await get(sources.client, NODES, nodes[0])) if nodes else ""
    if nodes:
        place = place or "runs elsewhere; ask there, with its --root"
        return UsageError(f"{name} is offered by node {listed(nodes, NAMED)}, which {place}")
    return unknown("plugin or driver", name, known, "nodeplane devices --plugins")


async def _with_restart(sources: Sources, found: PluginEvidence) -> PluginEvidence:
    """Add when the device manager started, and why it was restarted."""
    status = await _process(sources, DEVICES)
    if status is None:
        return found
    since = found.now - status.uptime_s
    return msgspec.structs.replace(found, manager_since=since, manager_restart=status.last_reason)


async def _process(sources: Sources, instance: str) -> ActorStatus | None:
    with suppress(NodeplaneError):
        status = await sources.status()
        return next((actor for actor in status.actors if actor.instance == instance), None)
    return None


async def _published(sources: Sources, driver: str) -> tuple[str, ...]:
    """Return the node of each ResourceSlice that a driver has published; "" for several nodes."""
    if "/" in driver:
        return ()  # a resource of a device plugin
    with suppress(NodeplaneError):
        slices = await objects_of(sources, RESOURCESLICES, selector=f"spec.driver={driver}")
        return tuple(str(mapping(obj.get("spec")).get("nodeName") or "") for obj in slices)
    return ()


async def gather_device(sources: Sources, name: str) -> DeviceEvidence:
    """Return what is known of RESOURCE/ID or DRIVER/POOL/DEVICE. Raises UsageError if nobody knows it."""
    known: list[str] = []
    owner, away, resource = DeviceManager(), "", name.rpartition("/")[0]
    async for near, manager in managers(sources):
        row = next((row for row in manager.rows if name == f"{row.resource}/{row.device}"), None)
        if row is not None:
            plugin = next(iter(plugin_evidence(manager, [row.resource], near.now())), None)
            plugin = await _with_restart(near, plugin) if plugin and not plugin.connected else plugin
            health = manager.health.get(f"{row.resource} {row.device}")
            return DeviceEvidence(name=name, now=sources.now(), row=row, plugin=plugin, health=health)
        serves = name.partition("/")[0] in {driver.driver.name for driver in manager.drivers.drivers}
        if name in manager.health or (serves and name not in owner.health) or manager.kubelet:
            owner = manager
        known += [f"{row.resource}/{row.device}" for row in manager.rows]
        if resource in manager.resources() and not any(row.resource == resource for row in manager.rows):
            (plugin,) = plugin_evidence(manager, [resource], near.now())
            away = plugin_sentence(await _with_restart(near, plugin))
    if away:
        raise UsageError(f"no device of {resource} is known now; {away}")
    return await _dra_device(sources, name, owner, known)


async def _dra_device(sources: Sources, name: str, manager: DeviceManager, known: list[str]) -> DeviceEvidence:
    driver = name.partition("/")[0]
    objects = await list_objects(sources.client, (*RESOURCES, RESOURCECLAIMS), driver=driver if "/" in name else "")
    published = await explanations(objects, sources.gates)
    explanation = next((explained for explained in published if explained.device == name), None)
    holders = tuple(_holder(obj) for obj in objects if obj.get("kind") == "ResourceClaim" and _holds(obj, name))
    if explanation is None and not holders and name not in manager.health:
        raise unknown("device", name, [*known, *(explained.device for explained in published)], "nodeplane devices")
    slices = sum(obj.get("kind") == "ResourceSlice" for obj in objects)
    node = explanation.node if explanation is not None and explanation.node not in (EVERY, SELECTED) else ""
    elsewhere = "" if node in ("", *here(sources)) else node
    return DeviceEvidence(
        name=name,
        now=sources.now(),
        health=manager.health.get(name),
        explanation=explanation,
        taints=tuple(taint_texts(explanation)) if explanation else (),
        driver=None if manager.kubelet or elsewhere else driver_evidence(manager, driver, slices, sources.now()),
        elsewhere=elsewhere,
        holders=holders,
    )


def _holds(claim: views.ResourceClaim, name: str) -> bool:
    return any(str(device_of(result)) == name and not result.get("adminAccess") for result in results_of(claim))


def _holder(claim: views.ResourceClaim) -> str:
    pods = [str(row.get("name")) for row in rows(mapping(claim.get("status")).get("reservedFor"))]
    return key_of(claim) + (f" (pod {','.join(pods)})" if pods else "")


async def gather_claim(sources: Sources, namespace: str, name: str) -> ClaimEvidence:
    """Return what is known of a ResourceClaim. Raises UsageError if there is none of this name."""
    reader, client = SourceReader(), sources.client
    claim = await get(client, RESOURCECLAIMS, name, namespace)
    if claim is None:
        known = await names(client, RESOURCECLAIMS, namespace)
        raise unknown("claim", f"{namespace}/{name}", known, f"kubectl get resourceclaims -n {namespace}")
    pods = await objects_of(sources, PODS, namespace)
    users = tuple(pod for pod in pods if name in used_claims(pod) and not has_released_claims(pod))
    waiting = users and not mapping(claim.get("status")).get("allocation")
    return ClaimEvidence(
        key=f"{namespace}/{name}",
        now=sources.now(),
        claim=claim,
        events=await reader.read("events", events_of(sources, namespace, f"involvedObject.uid={uid_of(claim)}"), ()),
        users=users,
        scheduling=await reader.read("scheduling", scheduling(sources, users[0]), None) if waiting else None,
        health=await reader.read("devices", all_health(sources), {}),
    )


async def gather_node(sources: Sources, name: str) -> NodeEvidence:
    """Return what is known of a node. Raises UsageError if there is none of this name."""
    reader = SourceReader()
    node = await get(sources.client, NODES, name)
    if node is None:
        raise unknown("node", name, await names(sources.client, NODES), "kubectl get nodes")
    about = f"involvedObject.kind=Node,involvedObject.name={name}"
    events = await reader.read("events", events_of(sources, "", about), ())
    evidence = NodeEvidence(name=name, now=sources.now(), node=node, events=events)
    if name not in here(sources):
        return evidence  # on another machine
    async with sources.node(name) as near:
        try:
            status = await near.status()
        except SupervisorError:
            return msgspec.structs.replace(evidence, running=False)
    return msgspec.structs.replace(evidence, actors=status.actors)
