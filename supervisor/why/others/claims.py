"""Diagnosis of a ResourceClaim: unallocated, allocated, reserved, waiting for binding conditions or its deletion."""

from collections.abc import Callable, Iterator

from protocols.dra.binding import FAILED, unmet, verdict
from protocols.dra.pods import FINALIZER, allocation_of, device_of, results_of
from protocols.kube.errors import SHAPE_ERRORS
from protocols.kube.meta import condition, key_of, meta
from protocols.kube.objects import mapping, rows
from protocols.kube.times import time_or
from protocols.messages.devices import DeviceHealth
from protocols.process.texts import listed
from supervisor.base.errors import SupervisorError
from supervisor.dra.why_text import reason_of
from supervisor.why.model.text import ago, event_line, joined
from supervisor.why.model.types import ClaimEvidence, Finding

NAMED = 5


def diagnose_claim(found: ClaimEvidence) -> Finding:
    """Raises SupervisorError for an object of the wrong shape, which another server may have admitted."""
    try:
        return next(finding for rule in RULES if (finding := rule(found)) is not None)
    except SHAPE_ERRORS as error:
        raise SupervisorError(f"claim {found.key} has a field of the wrong shape: {error!r:.200}") from None


def _deleted(found: ClaimEvidence) -> Finding | None:
    if not (since := time_or(meta(found.claim).get("deletionTimestamp"))):
        return None
    finalizers = [str(finalizer) for finalizer in meta(found.claim).get("finalizers") or ()]
    reason = f"its deletion was requested at {ago(since, found.now)}"
    if pods := _reserved(found):
        reason += f"; it waits for {joined(pods)}, for which it is reserved"
    elif finalizers == [FINALIZER]:
        reason += "; no pod uses it, its devices are being given back"
    else:
        reason += f"; it is held by finalizer {joined(finalizer for finalizer in finalizers if finalizer != FINALIZER)}"
    return Finding("deletion waiting", reason, tuple(_evidence(found)), ("end the pods that use it",) if pods else ())


def _unused(found: ClaimEvidence) -> Finding | None:
    if allocation_of(found.claim) or found.users:
        return None
    return Finding("unallocated", "no pod uses it; the scheduler allocates a claim for the first pod that does")


def _unallocated(found: ClaimEvidence) -> Finding | None:
    if allocation_of(found.claim):
        return None
    pod = found.users[0]
    message = str((condition(pod, "PodScheduled") or {}).get("message") or "")
    why = reason_of(found.scheduling, found.key) if found.scheduling and not found.scheduling.fitting else ""
    reason = why or message or "the scheduler has not tried the pod yet"
    return Finding(
        "unallocated", f"pod {key_of(pod)} waits for it: {reason}", (f"scheduler: {message}",) if message else (),
        (f"see `nodeplane devices --why {key_of(pod)}`",),
    )  # fmt: skip


def not_bound(found: ClaimEvidence) -> Finding | None:
    """Explain a claim whose devices have binding conditions that failed or are not met."""
    state = verdict(found.claim, found.now)
    waits = unmet(found.claim)
    if state.state == FAILED:
        return Finding("binding failed", state.text, tuple(_evidence(found)))
    if not waits:
        return None
    reason = f"allocated to {_devices(found)}, which wait for {joined(f'{name} of {device}' for device, name in waits)}"
    return Finding("waiting for binding", reason, tuple(_evidence(found)), ("the driver sets the condition",))


def _allocated(found: ClaimEvidence) -> Finding:
    pods = _reserved(found)
    use = f"reserved for {joined(pods)}" if pods else "no pod uses it now"
    since = time_or(mapping(mapping(found.claim.get("status")).get("allocation")).get("allocationTimestamp"))
    when = f" since {ago(since, found.now)}" if since else ""
    sick = [f"device {name} is {report.health}{f': {report.message}' if report.message else ''}"
            for name, report in _health(found) if report.health != "Healthy"]  # fmt: skip
    reason = f"allocated to {_devices(found)}{when}; {use}{f'; {sick[0]}' if sick else ''}"
    state = "reserved" if pods else "allocated"
    return Finding(f"{state}, with a broken device" if sick else state, reason, (*sick[1:], *_evidence(found)))


Rule = Callable[[ClaimEvidence], Finding | None]
RULES: tuple[Rule, ...] = (_deleted, _unused, _unallocated, not_bound, _allocated)
"""Tried in order; the last one always matches."""


def _reserved(found: ClaimEvidence) -> list[str]:
    reserved = rows(mapping(found.claim.get("status")).get("reservedFor"))
    return [f"{consumer.get('resource', 'pods')}/{consumer.get('name')}" for consumer in reserved]


def _devices(found: ClaimEvidence) -> str:
    return listed([str(device_of(result)) for result in results_of(found.claim)], NAMED) or "no device"


def _health(found: ClaimEvidence) -> Iterator[tuple[str, DeviceHealth]]:
    for result in results_of(found.claim):
        if (health := found.health.get(str(device_of(result)))) is not None:
            yield str(device_of(result)), health


def _evidence(found: ClaimEvidence) -> Iterator[str]:
    yield from (event_line(event) for event in found.events[-3:])
