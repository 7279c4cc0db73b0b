"""Compute the whole status of a pod. Pure."""

from collections.abc import Mapping

import msgspec

from protocols.kinds import views
from protocols.kube.meta import STATUS_LISTS
from protocols.kube.pods import FINISHED
from protocols.kube.times import format_ns
from protocols.lifecycle.pods import runtime_status
from protocols.lifecycle.pods.probes import ProbeVerdict
from protocols.lifecycle.pods.resources import IN_PROGRESS, SIDES, Sizes, resized
from protocols.lifecycle.pods.resources import PENDING as RESIZE_PENDING
from protocols.lifecycle.pods.types import APP, INIT, ContainerSpec, PodSpec, Waiting
from protocols.lifecycle.restarts.restart_all import WAITING, is_due
from protocols.lifecycle.status.conditions import (
    DISRUPTED,
    FAILED,
    OWN,
    PENDING,
    PREEMPTED,
    RESTARTING_ALL,
    compute_conditions,
    compute_phase,
    generation_of,
)
from protocols.lifecycle.status.container import RenderContext, render
from protocols.lifecycle.status.device_health import HEALTH, Retention, health_entries, unknown
from protocols.messages.health import HeldResource, PodHeld, PodResourceStatus
from protocols.messages.pleg import ContainerStatus, PodStatus


class StatusInputs(msgspec.Struct, frozen=True):
    """Inputs of a pod's status: its spec, its runtime status, and what was published before."""

    spec: PodSpec
    runtime: PodStatus
    before: views.PodStatus = {}
    """Previous status: that of the API, overlaid by the one published last."""
    waiting: Mapping[str, Waiting] = {}
    resources: PodResourceStatus | None = None
    verdicts: Mapping[str, ProbeVerdict] = {}
    """By container id."""
    ended_early: Waiting | None = None
    """Reason of a pod that ended as Failed because it was active too long."""
    runtime_name: str = "nodeplane"
    host_ip: str = ""
    now_ns: int = 0
    final: bool = False
    """The pod was ended on purpose (deleted, rejected, complete) and nothing of it runs."""
    health_enabled: bool = True
    retention: Retention = Retention.NOTHING
    held_before: PodHeld = PodHeld()
    """Devices that an ended pod had held: shown as Unknown where nothing else is known."""
    devices_held: bool = False
    """The devices are not free yet: a terminal phase would let the scheduler reuse them too early."""
    recursive: bool = False
    """The pod's runtime handler can make mounts below a read-only one read-only."""
    sizes: Sizes = msgspec.field(default_factory=Sizes)
    rejected: Waiting | None = None
    """Reason and message of a pod that was rejected at admission."""


def compute_status(inputs: StatusInputs) -> views.PodStatus:
    """Return the status without empty fields."""
    before = inputs.before
    known = _known_containers(before)
    statuses = _container_statuses(inputs, known)
    retention = _retention(inputs, statuses)
    held_before = {one.name: one.resources for one in inputs.held_before.containers}
    for container in inputs.spec.containers:
        shown = known.get(container.name, {})
        _add_resources(
            statuses[container.name], container, inputs, retention, shown, held_before.get(container.name, ())
        )
    phase = _phase(inputs, before, statuses)
    now = format_ns(inputs.now_ns)
    sandbox = runtime_status.current_sandbox(inputs.runtime)
    more = {} if phase in FINISHED else _resize_conditions(inputs.sizes, before)
    if inputs.ended_early == PREEMPTED:
        more = {**more, **DISRUPTED}
    restarting_all = _restarting_all(inputs) if inputs.spec.restarts_in_place else None
    conditions = compute_conditions(
        inputs.spec, statuses, phase, sandbox is not None, before, now, more, restarting_all
    )
    status: views.PodStatus = {
        "phase": phase,
        "conditions": conditions,
        "startTime": before.get("startTime") or now,
        **_addresses(inputs, before),
    }
    if not _never_admitted(inputs, before):
        status["containerStatuses"] = [statuses[c.name] for c in sorted(inputs.spec.apps, key=lambda c: c.name)]
        status["initContainerStatuses"] = [statuses[c.name] for c in inputs.spec.inits]
        if inputs.spec.ephemeral:
            status["ephemeralContainerStatuses"] = _ephemeral_statuses(inputs, before)
        reported = inputs.resources.pod if inputs.resources else ()
        entries = health_entries(reported or unknown(inputs.held_before.pod), before, retention)
        if entries:
            status[HEALTH] = entries
    status |= _reason(inputs, before, phase)
    if generation := generation_of(inputs.spec):
        status["observedGeneration"] = generation
    return status


def _resize_conditions(sizes: Sizes, before: views.PodStatus) -> dict[str, Waiting]:
    """Return the conditions of an in-place resize that are True; until this process knows sizes, those shown before."""
    if sizes.allocated is not None:
        return sizes.conditions
    return {
        condition["type"]: Waiting(condition.get("reason") or "", condition.get("message") or "")
        for condition in before.get("conditions") or ()
        if condition.get("type") in (RESIZE_PENDING, IN_PROGRESS) and condition.get("status") == "True"
    }


def _restarting_all(inputs: StatusInputs) -> bool:
    return not inputs.final and is_due(inputs.spec, inputs.runtime)


def _runs_removed(inputs: StatusInputs) -> bool:
    """Return True while all containers restart, and in the first status after their runs were removed."""
    before = inputs.before.get("conditions") or ()
    return _restarting_all(inputs) or any(c.get("type") == RESTARTING_ALL and c.get("status") == "True" for c in before)


def _never_admitted(inputs: StatusInputs, before: views.PodStatus) -> bool:
    """Return True for rejected pods, which have a reason and no containers, also after a restart of this process."""
    was_rejected = before.get("phase") in FINISHED and not before.get("containerStatuses")
    return not inputs.runtime.containers and (inputs.rejected is not None or was_rejected)


def overlay(api: views.PodStatus, shown: views.PodStatus) -> views.PodStatus:
    """Return the API's status with `shown` applied; conditions of others stay."""
    if not shown:
        return api
    ours = [c for c in shown.get("conditions") or () if c.get("type") in OWN]
    others = [c for c in api.get("conditions") or () if c.get("type") not in OWN]
    return {**api, **shown, "conditions": ours + others}


def restart_counts(before: views.PodStatus) -> dict[str, int]:
    """Return restart counts of containers that ran at least once according to the API."""
    entries = [entry for key in STATUS_LISTS for entry in before.get(key) or ()]
    return {e["name"]: int(e.get("restartCount") or 0) for e in entries if e.get("name") and e.get("containerID")}


def _known_containers(before: views.PodStatus) -> dict[str, views.ContainerStatus]:
    entries = [*(before.get("containerStatuses") or ()), *(before.get("initContainerStatuses") or ())]
    return {entry.get("name", ""): entry for entry in entries}


def _container_statuses(
    inputs: StatusInputs, old: dict[str, views.ContainerStatus]
) -> dict[str, views.ContainerStatus]:
    """Render container statuses without device health."""
    attempts = runtime_status.by_name(inputs.runtime)
    initializing = _initializing(inputs.spec, inputs.runtime)
    removed = _runs_removed(inputs)
    statuses: dict[str, views.ContainerStatus] = {}
    for container in inputs.spec.containers:
        default = (
            "PodInitializing" if inputs.spec.inits and (initializing or container.kind != APP) else "ContainerCreating"
        )
        context = RenderContext(
            inputs.spec,
            inputs.runtime_name,
            WAITING if removed else default,
            inputs.final and inputs.rejected is None,
            inputs.verdicts,
            removed,
            inputs.recursive,
            not initializing,
        )
        runs, known = attempts.get(container.name, []), old.get(container.name)
        statuses[container.name] = render(context, container, runs, inputs.waiting.get(container.name), known)
        _add_sizes(statuses[container.name], container, runs, inputs.sizes, known or {})
    return statuses


def _retention(inputs: StatusInputs, statuses: dict[str, views.ContainerStatus]) -> Retention:
    """Return the retention; a pod that has ended retains what is known until health reports it."""
    if not inputs.health_enabled:
        return Retention.NOTHING
    if compute_phase(inputs.spec, statuses) not in FINISHED or inputs.retention is Retention.KNOWN:
        return inputs.retention
    return Retention.KNOWN if inputs.resources is None else Retention.UNREPORTED


def _ephemeral_statuses(inputs: StatusInputs, before: views.PodStatus) -> list[views.ContainerStatus]:
    """Render ephemeral containers, which are never ready and have no `started`."""
    attempts = runtime_status.by_name(inputs.runtime)
    old = {c.get("name", ""): c for c in before.get("ephemeralContainerStatuses") or ()}
    context = RenderContext(
        inputs.spec,
        inputs.runtime_name,
        "ContainerCreating",
        inputs.final and inputs.rejected is None,
        recursive=inputs.recursive,
    )
    shown = [
        render(context, c, attempts.get(c.name, []), inputs.waiting.get(c.name), old.get(c.name))
        for c in inputs.spec.ephemeral
    ]
    for status in shown:
        status.pop("started", None)
        status["ready"] = False
    return shown


def _initializing(spec: PodSpec, runtime: PodStatus) -> bool:
    """Return True while no app was created and not all plain init containers are done."""
    newest = {name: runs[0] for name, runs in runtime_status.by_name(runtime).items()}
    if any(c.name in newest for c in spec.apps):
        return False
    inits = (newest.get(c.name) for c in spec.inits if c.kind == INIT)
    return not all(c is not None and c.state == runtime_status.EXITED and c.exit_code == 0 for c in inits)


def _add_sizes(
    status: views.ContainerStatus,
    container: ContainerSpec,
    runs: list[ContainerStatus],
    sizes: Sizes,
    known: views.ContainerStatus,
) -> None:
    """Add allocated and actual resources of a container that has any in its spec."""
    if sizes.allocated is None:
        if "allocatedResources" in known:
            status["allocatedResources"] = known["allocatedResources"]
        if "resources" in known:
            status["resources"] = known["resources"]
        return
    allocated = sizes.allocated.get(container.name)
    if allocated is None or not container.raw.get("resources"):
        return
    given = container.raw["resources"]
    has = sizes.actuated.get(runs[0].id, allocated) if runs else allocated
    if requests := resized(given.get("requests") or {}, allocated["requests"]):
        status["allocatedResources"] = requests
    shown: views.ResourceRequirements = {}
    for side in SIDES:
        if amounts := resized(given.get(side) or {}, has[side]):
            shown[side] = amounts
    if shown:
        status["resources"] = shown


def _add_resources(
    status: views.ContainerStatus,
    container: ContainerSpec,
    inputs: StatusInputs,
    retention: Retention,
    known: views.ContainerStatus,
    held_before: tuple[HeldResource, ...],
) -> None:
    if container.kind == INIT and status["ready"]:
        return  # completed: its devices are no longer its own
    reported = (inputs.resources.containers if inputs.resources else {}).get(container.name, ())
    if entries := health_entries(reported or unknown(held_before), known, retention):
        status[HEALTH] = entries


def _phase(inputs: StatusInputs, before: views.PodStatus, statuses: dict[str, views.ContainerStatus]) -> str:
    """Return the phase. Terminal ones never revert, and wait until nothing runs or holds devices."""
    old: str = before.get("phase") or ""
    if old in FINISHED:
        return old
    if inputs.rejected:
        return "Failed"
    if _restarting_all(inputs):
        return old or PENDING
    phase = compute_phase(inputs.spec, statuses, inputs.final)
    if inputs.ended_early and inputs.final:
        phase = FAILED
    if phase in FINISHED and (inputs.devices_held or runtime_status.live(inputs.runtime)):
        return old or PENDING
    return phase


def is_over(spec: PodSpec, status: views.PodStatus) -> bool:
    """Return True if every container in the status has ended for good, whatever its phase."""
    return bool(spec.apps) and compute_phase(spec, _known_containers(status)) in FINISHED


def _addresses(inputs: StatusInputs, before: views.PodStatus) -> views.PodStatus:
    addresses: views.PodStatus = {}
    if inputs.host_ip:
        addresses["hostIP"] = inputs.host_ip
        addresses["hostIPs"] = [{"ip": inputs.host_ip}]
    ips = runtime_status.ordered_ips(inputs.runtime.ips, inputs.host_ip)
    on_host = inputs.spec.host_network and inputs.rejected is None
    if not ips and inputs.host_ip and (on_host or runtime_status.current_sandbox(inputs.runtime) is not None):
        ips = (inputs.host_ip,)  # also of a runtime whose sandboxes have no network of their own
    if ips:
        addresses |= {"podIP": ips[0], "podIPs": [{"ip": ip} for ip in ips]}
    elif before.get("podIP"):
        addresses |= {"podIP": before["podIP"], "podIPs": before.get("podIPs") or [{"ip": before["podIP"]}]}
    return addresses


def _reason(inputs: StatusInputs, before: views.PodStatus, phase: str) -> views.PodStatus:
    if inputs.rejected:
        return {"reason": inputs.rejected.reason, "message": inputs.rejected.message}
    if inputs.ended_early and phase == FAILED:
        return {"reason": inputs.ended_early.reason, "message": inputs.ended_early.message}
    if phase in FINISHED and before.get("phase") == phase:
        reason, message = before.get("reason"), before.get("message")
        fields: views.PodStatus = {"reason": reason} if reason else {}
        return {**fields, "message": message} if message else fields
    return {}
