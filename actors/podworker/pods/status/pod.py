"""Compute the whole status of a pod. Pure."""

from collections.abc import Mapping

import msgspec

from actors.podworker.model import runtime_status
from actors.podworker.model.resources import SIDES, Sizes
from actors.podworker.model.types import APP, INIT, ContainerSpec, Object, PodSpec, Waiting
from actors.podworker.pods.probes.results import Verdict
from actors.podworker.pods.status.conditions import FAILED, OWN, PENDING, TERMINAL, compute_conditions, compute_phase
from actors.podworker.pods.status.container import Scene, render
from actors.podworker.pods.status.device_health import HEALTH, Keep, health_entries, unknown
from protocols.kube.times import format_ns
from protocols.messages.health import PodResourceStatus
from protocols.messages.held import HeldResource, PodHeld
from protocols.messages.pleg import ContainerStatus, PodStatus


class View(msgspec.Struct, frozen=True):
    """Everything a pod's status is made of."""

    spec: PodSpec
    runtime: PodStatus
    before: Object = {}
    """The status as shown so far: what the API has, under what was sent to it last."""
    waiting: Mapping[str, Waiting] = {}
    resources: PodResourceStatus | None = None
    verdicts: Mapping[str, Verdict] = {}
    """What probes say, by container id."""
    doomed: Waiting | None = None
    """Why the pod is ended as Failed, once nothing of it runs: it was active for too long."""
    runtime_name: str = "nodeplane"
    host_ip: str = ""
    host_ips: tuple[str, ...] = ()
    now_ns: int = 0
    final: bool = False
    """The pod was ended on purpose (deleted, refused, complete) and nothing of it runs."""
    tells_health: bool = True
    """Statuses tell of devices at all."""
    keep: Keep = Keep.NOTHING
    """What stands of the devices the status shows."""
    had: PodHeld = PodHeld()
    """What a pod that is over had: shown as Unknown where nothing else is known of it."""
    held: bool = False
    """The pod's devices are not free yet: a terminal phase would make the scheduler give them away too early."""
    sizes: Sizes = Sizes()
    rejected: Waiting | None = None
    """Admission said no: reason and message of the Failed pod."""


def compute_status(view: View) -> Object:
    """The status object, with empty fields left out."""
    before = view.before
    known = _known_containers(before)
    statuses = _container_statuses(view, known)
    keep = _keep(view, statuses)
    had = {one.name: one.resources for one in view.had.containers}
    for container in view.spec.containers:
        shown = known.get(container.name, {})
        _add_resources(statuses[container.name], container, view, keep, shown, had.get(container.name, ()))
    phase = _phase(view, before, statuses)
    now = format_ns(view.now_ns)
    sandbox = runtime_status.current_sandbox(view.runtime)
    more = {} if phase in TERMINAL else view.sizes.conditions
    conditions = compute_conditions(view.spec, statuses, phase, sandbox is not None, before, now, more)
    status: Object = {
        "phase": phase,
        "conditions": conditions,
        "startTime": before.get("startTime") or now,
        **_addresses(view, before),
    }
    if not _never_admitted(view, before):
        status["containerStatuses"] = [statuses[c.name] for c in sorted(view.spec.apps, key=lambda c: c.name)]
        status["initContainerStatuses"] = [statuses[c.name] for c in view.spec.inits]
        if view.spec.ephemeral:
            status["ephemeralContainerStatuses"] = _ephemeral_statuses(view, before)
        told = view.resources.pod if view.resources else ()
        entries = health_entries(told or unknown(view.had.pod), before, keep)
        if entries:
            status[HEALTH] = entries
    return status | _reason(view, before, phase) | _generation(view.spec)


def _never_admitted(view: View, before: Object) -> bool:
    """Refused pods show why as their own reason, and no containers at all; also in a later life of this process."""
    refused = before.get("phase") in TERMINAL and not before.get("containerStatuses")
    return not view.runtime.containers and (view.rejected is not None or refused)


def overlay(api: Object, shown: Object) -> Object:
    """What the API shows once it took `shown`; conditions of others stay as the API has them."""
    if not shown:
        return api
    ours = [c for c in shown.get("conditions") or () if c.get("type") in OWN]
    others = [c for c in api.get("conditions") or () if c.get("type") not in OWN]
    return {**api, **shown, "conditions": ours + others}


def restart_counts(before: Object) -> dict[str, int]:
    """Restart counts of containers that, as far as the API knows, ran at least once."""
    lists = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
    entries = [entry for key in lists for entry in before.get(key) or ()]
    return {e["name"]: int(e.get("restartCount") or 0) for e in entries if e.get("name") and e.get("containerID")}


def _known_containers(before: Object) -> dict[str, Object]:
    lists = ("containerStatuses", "initContainerStatuses")
    return {entry.get("name", ""): entry for key in lists for entry in before.get(key) or ()}


def _container_statuses(view: View, old: dict[str, Object]) -> dict[str, Object]:
    """Without their devices."""
    attempts = runtime_status.by_name(view.runtime)
    initializing = _initializing(view.spec, view.runtime)
    statuses: dict[str, Object] = {}
    for container in view.spec.containers:
        default = (
            "PodInitializing" if view.spec.inits and (initializing or container.kind != APP) else "ContainerCreating"
        )
        scene = Scene(view.spec, view.runtime_name, default, view.final and view.rejected is None, view.verdicts)
        runs, known = attempts.get(container.name, []), old.get(container.name)
        statuses[container.name] = render(scene, container, runs, view.waiting.get(container.name), known)
        _add_sizes(statuses[container.name], container, runs, view.sizes, known or {})
    return statuses


def _keep(view: View, statuses: dict[str, Object]) -> Keep:
    """A pod that is over has nothing to ask for any more, whichever life of this process finds it so."""
    if not view.tells_health:
        return Keep.NOTHING
    return Keep.KNOWN if compute_phase(view.spec, statuses) in TERMINAL else view.keep


def _ephemeral_statuses(view: View, before: Object) -> list[Object]:
    """They are never ready, and nobody asks whether they have started."""
    attempts = runtime_status.by_name(view.runtime)
    old = {c.get("name", ""): c for c in before.get("ephemeralContainerStatuses") or ()}
    scene = Scene(view.spec, view.runtime_name, "ContainerCreating", view.final and view.rejected is None)
    names = [(c, c.name) for c in view.spec.ephemeral]
    shown = [render(scene, c, attempts.get(name, []), view.waiting.get(name), old.get(name)) for c, name in names]
    return [{**{k: v for k, v in status.items() if k != "started"}, "ready": False} for status in shown]


def _initializing(spec: PodSpec, runtime: PodStatus) -> bool:
    """No app container was created yet and not all plain init containers are done."""
    newest = {name: runs[0] for name, runs in runtime_status.by_name(runtime).items()}
    if any(c.name in newest for c in spec.apps):
        return False
    inits = (newest.get(c.name) for c in spec.inits if c.kind == INIT)
    return not all(c is not None and c.state == runtime_status.EXITED and c.exit_code == 0 for c in inits)


def _add_sizes(
    status: Object, container: ContainerSpec, runs: list[ContainerStatus], sizes: Sizes, known: Object
) -> None:
    """What the node has allocated, and what the container really has; of those that ask for nothing, nothing."""
    if sizes.allocated is None:
        status |= {key: known[key] for key in ("allocatedResources", "resources") if key in known}
        return
    allocated = sizes.allocated.get(container.name)
    if allocated is None or not container.raw.get("resources"):
        return
    given = container.raw["resources"]
    has = sizes.actuated.get(runs[0].id, allocated) if runs else allocated
    requests = {**(given.get("requests") or {}), **allocated["requests"]}
    if requests:
        status["allocatedResources"] = requests
    if shown := {side: {**(given.get(side) or {}), **has[side]} for side in SIDES if given.get(side) or has[side]}:
        status["resources"] = shown


def _add_resources(
    status: Object, container: ContainerSpec, view: View, keep: Keep, known: Object, had: tuple[HeldResource, ...]
) -> None:
    if container.kind == INIT:
        return
    told = (view.resources.containers if view.resources else {}).get(container.name, ())
    if entries := health_entries(told or unknown(had), known, keep):
        status[HEALTH] = entries


def _phase(view: View, before: Object, statuses: dict[str, Object]) -> str:
    """Terminal phases never revert, and are not reported while anything still runs or holds devices."""
    old: str = before.get("phase") or ""
    if old in TERMINAL:
        return old
    if view.rejected:
        return "Failed"
    phase = compute_phase(view.spec, statuses, view.final)
    if view.doomed and view.final:
        phase = FAILED
    if phase in TERMINAL and (view.held or runtime_status.live(view.runtime)):
        return old or PENDING
    return phase


def is_over(spec: PodSpec, status: Object) -> bool:
    """By a computed status: every container ended for good, whatever phase is shown meanwhile."""
    entries = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return bool(spec.apps) and compute_phase(spec, {e["name"]: e for e in entries}) in TERMINAL


def _addresses(view: View, before: Object) -> Object:
    found: Object = {}
    if view.host_ip:
        found["hostIP"] = view.host_ip
        found["hostIPs"] = [{"ip": ip} for ip in view.host_ips or (view.host_ip,)]
    ips = list(view.runtime.ips)
    if not ips and runtime_status.current_sandbox(view.runtime) is not None and view.host_ip:
        ips = [view.host_ip]  # host network, or a runtime whose sandboxes have no network of their own
    if ips:
        found |= {"podIP": ips[0], "podIPs": [{"ip": ip} for ip in ips]}
    elif before.get("podIP"):
        found |= {"podIP": before["podIP"], "podIPs": before.get("podIPs") or [{"ip": before["podIP"]}]}
    return found


def _reason(view: View, before: Object, phase: str) -> Object:
    if view.rejected:
        return {"reason": view.rejected.reason, "message": view.rejected.message}
    if view.doomed and phase == FAILED:
        return {"reason": view.doomed.reason, "message": view.doomed.message}
    if phase in TERMINAL and before.get("phase") == phase:
        return {key: before[key] for key in ("reason", "message") if before.get(key)}
    return {}


def _generation(spec: PodSpec) -> Object:
    generation = (spec.raw.get("metadata") or {}).get("generation")
    return {"observedGeneration": generation} if generation else {}
