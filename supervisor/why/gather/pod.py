"""Evidence about a pod."""

import msgspec

from protocols.kinds import views
from protocols.kinds.table import EVENTS, NODES, PODS
from protocols.kube.errors import ApiError
from protocols.kube.meta import Object, event_time, uid_of
from protocols.kube.objects import mapping, number
from protocols.kube.pods import node_of
from protocols.kube.times import time_or
from protocols.kubeclient.events import COMBINED
from protocols.trace import Row
from supervisor.base.errors import NotRunning, UsageError
from supervisor.why.gather.device_managers import best_plugins, offered_elsewhere, plugin_evidence
from supervisor.why.gather.dra import scheduling
from supervisor.why.gather.sources import (
    LOG_LINES,
    DeviceManager,
    SourceReader,
    Sources,
    get,
    here,
    names,
    simulated,
    unknown,
)
from supervisor.why.model.types import ApiEvent, PluginEvidence, PodEvidence
from supervisor.why.pods.view import containers, requested

MAX_EVENTS = 50
LOGS = 3
"""Containers whose logs are read."""
ELSEWHERE = "runs elsewhere: its devices, calls and steps are known there, with the --root of that node"


async def gather_pod(sources: Sources, namespace: str, name: str) -> PodEvidence:
    """Return what the plane knows of a pod, deleted or not. Raises UsageError for an unknown one, ApiError, ApiAway."""
    reader = SourceReader()
    pod = await get(sources.client, PODS, name, namespace)
    events = await reader.read("events", _events(sources, namespace, name, pod), ())
    steps = await _steps(reader, sources, namespace, uid_of(pod) if pod else name)
    if pod is None and not events and not steps:
        known = await names(sources.client, PODS, namespace)
        raise unknown("pod", f"{namespace}/{name}", known, f"kubectl get pods -n {namespace}")
    evidence = PodEvidence(key=f"{namespace}/{name}", now=sources.now(), pod=pod, events=events, steps=steps)
    return await _with_details(reader, sources, evidence, pod) if pod is not None else _sealed(evidence, reader)


def _sealed(found: PodEvidence, reader: SourceReader) -> PodEvidence:
    return msgspec.structs.replace(found, unread=tuple(reader.unread))


async def _with_details(reader: SourceReader, sources: Sources, found: PodEvidence, pod: views.Pod) -> PodEvidence:
    node = node_of(pod)
    found = msgspec.structs.replace(found, logs=await reader.read("logs", _logs(sources, pod), {}))
    if node:
        of_node = await reader.read("node", get(sources.client, NODES, node), None)
        found = await _with_node(reader, sources, msgspec.structs.replace(found, node=of_node), pod)
        return _sealed(found, reader)
    plugins = await reader.read("devices", _plugins_anywhere(sources, requested(pod)), ())
    answer = await reader.read("scheduling", scheduling(sources, pod), None)
    return _sealed(msgspec.structs.replace(found, plugins=plugins, scheduling=answer), reader)


async def _with_node(reader: SourceReader, sources: Sources, found: PodEvidence, pod: views.Pod) -> PodEvidence:
    """Add what the device manager of the pod's node knows."""
    node, blind = node_of(pod), ""
    async with sources.node(node) as near:
        manager = await reader.read("devices", near.device_manager(), DeviceManager())
    devices = tuple(row for row in manager.rows if row.pod == found.key)
    if manager.kubelet and (devices or node in here(sources)):
        blind = f"node {node} runs a kubelet, which reports neither calls nor steps"
    elif node not in here(sources):
        blind, manager, devices = f"node {node} {simulated(found.node) or ELSEWHERE}", DeviceManager(kubelet=True), ()
    reader.unread += [blind] if blind else []
    return msgspec.structs.replace(
        found,
        blind=blind,
        calls=tuple(call for call in manager.calls if call.subject.partition(" ")[0] == found.key),
        plugins=plugin_evidence(manager, requested(pod), sources.now()),
        devices=devices,
    )


async def _plugins_anywhere(sources: Sources, resources: set[str]) -> tuple[PluginEvidence, ...]:
    """Return the evidence about resources, without those of which only a node elsewhere knows a plugin."""
    plugins = await best_plugins(sources, resources)
    if all(plugin.known for plugin in plugins):
        return plugins
    offered = await offered_elsewhere(sources)
    return tuple(plugin for plugin in plugins if plugin.known or plugin.resource not in offered)


async def _events(sources: Sources, namespace: str, name: str, pod: views.Pod | None) -> tuple[ApiEvent, ...]:
    about = f"involvedObject.uid={uid_of(pod)}" if pod else f"involvedObject.kind=Pod,involvedObject.name={name}"
    return await events_of(sources, namespace, about)


async def events_of(sources: Sources, namespace: str, selector: str) -> tuple[ApiEvent, ...]:
    """Return the newest events of an object, oldest first; all are read, since an API lists by key."""
    event_list = await sources.client.list(EVENTS, namespace, field_selector=selector)
    items = sorted(event_list.get("items") or (), key=event_time)[-MAX_EVENTS:]
    return tuple(_event(item) for item in items)


def _event(event: Object) -> ApiEvent:
    return ApiEvent(
        time_or(event_time(event)),
        str(event.get("type") or ""),
        str(event.get("reason") or ""),
        str(event.get("message") or "").removeprefix(COMBINED),
        number(event.get("count")) or 1,
        _container(str(mapping(event.get("involvedObject")).get("fieldPath") or "")),
    )


def _container(field_path: str) -> str:
    """Return the name in `spec.containers{NAME}`."""
    return field_path.partition("{")[2].removesuffix("}")


async def _steps(reader: SourceReader, sources: Sources, namespace: str, name: str) -> tuple[Row, ...]:
    try:
        trace = await sources.trace(namespace, name)
    except UsageError:  # no process has seen it, or retains it
        return ()
    except (NotRunning, OSError) as error:
        reader.unread.append(f"trace could not be read: {error}")
        return ()
    if trace.silent:
        reader.unread.append(f"no answer from {', '.join(trace.silent)}: their steps are missing")
    return tuple(trace.rows)


async def _logs(sources: Sources, pod: views.Pod) -> dict[str, tuple[str, ...]]:
    """Return the ends of the logs of containers that ended, or are not ready."""
    logs = {}
    ended = [
        container
        for container in containers(pod)
        if container.ended or container.last or (container.running and not container.ready)
    ]
    for container in ended[:LOGS]:
        previous = not container.ended and (not container.running or container.ready)
        try:
            text = await sources.log(pod, container.name, previous)
        except ApiError:  # it has no log, or none any more
            continue
        logs[container.name] = tuple(text.splitlines()[-LOG_LINES:])
    return logs
