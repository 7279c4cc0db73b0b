"""Diagnosis of a node: which condition is not as it should be, and why."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from protocols.kinds import views
from protocols.kube.errors import SHAPE_ERRORS
from protocols.kube.meta import Object, condition
from protocols.kube.objects import mapping, rows
from protocols.kube.taints import HARD, node_taints, taint_text
from protocols.kube.times import time_or
from protocols.messages.supervisor import ActorStatus
from supervisor.base.errors import SupervisorError
from supervisor.why.model.text import ago, event_line, joined
from supervisor.why.model.types import Finding, NodeEvidence

READY = "Ready"
ALIVE = ("live", "ready")
ADOPT = "adopt"
"""The process that follows a kubelet; its note says how that goes."""
EXPECTED = {READY: "True"}
"""Every other condition of a node should be False."""


def diagnose_node(found: NodeEvidence) -> Finding:
    """Raises SupervisorError for an object of the wrong shape, which another server may have admitted."""
    try:
        return next(finding for rule in RULES if (finding := rule(found)) is not None)
    except SHAPE_ERRORS as error:
        raise SupervisorError(f"node {found.name} has a field of the wrong shape: {error!r:.200}") from None


def _not_ready(found: NodeEvidence) -> Finding | None:
    ready = condition(found.node, READY)
    if ready is None:
        return Finding("not ready", "it has not reported its conditions yet", tuple(_processes(found)))
    if ready.get("status") == "True":
        return None
    reason = f"condition Ready is {_condition(ready, found.now)}"
    if not found.running:
        reason += "; its processes do not run on this machine"
    elif dead := _dead(found):
        reason += f"; {_process(dead[0])}"
    return Finding(
        "not ready", reason, tuple(_evidence(found)), ("see `nodeplane status` and `nodeplane logs podworker`",)
    )


def _pressure(found: NodeEvidence) -> Finding | None:
    odd = _odd_conditions(found.node)
    if not odd:
        return None
    reason = f"condition {odd[0].get('type')} is {_condition(odd[0], found.now)}"
    return Finding("under pressure", reason, tuple(_evidence(found)))


def _unschedulable(found: NodeEvidence) -> Finding | None:
    if not mapping(found.node.get("spec")).get("unschedulable"):
        return None
    reason = "it is cordoned: no pod is scheduled to it (spec.unschedulable)"
    return Finding("cordoned", reason, tuple(_evidence(found)), (f"`kubectl uncordon {found.name}`",))


def _tainted(found: NodeEvidence) -> Finding | None:
    taints = [taint_text(taint) for taint in node_taints(found.node) if taint.effect in HARD]
    if not taints:
        return None
    return Finding("tainted", f"it has taint {joined(taints)}, which a pod must tolerate", tuple(_evidence(found)))


def _ready(found: NodeEvidence) -> Finding:
    entry = condition(found.node, READY) or {}
    reason = f"condition Ready is {_condition(entry, found.now)}"
    dead = [_process(actor) for actor in _dead(found)]
    evidence = (*dead[1:], *_adopting(found), *_taints(found))
    return Finding("ready, with a process down" if dead else "ready", "; ".join([reason, *dead[:1]]), evidence)


Rule = Callable[[NodeEvidence], Finding | None]
RULES: tuple[Rule, ...] = (_not_ready, _pressure, _unschedulable, _tainted, _ready)
"""Tried in order; the last one always matches."""


def _odd_conditions(node: views.Node) -> list[Object]:
    conditions = rows(mapping(node.get("status")).get("conditions"))
    return [entry for entry in conditions if entry.get("status") != EXPECTED.get(str(entry.get("type")), "False")]


def _condition(entry: Mapping[str, Any], now: float) -> str:
    since = time_or(entry.get("lastTransitionTime"))
    text = f"{entry.get('status')}{f' since {ago(since, now)}' if since else ''}"
    return f"{text}: {entry.get('reason')}: {entry.get('message')}"


def _dead(found: NodeEvidence) -> list[ActorStatus]:
    return [actor for actor in found.actors if actor.state not in ALIVE]


def _process(actor: ActorStatus) -> str:
    why = actor.last_reason or (actor.beat.note if actor.beat else "")
    return f"process {actor.instance} is {actor.state}{f': {why}' if why else ''}"


def _processes(found: NodeEvidence) -> Iterator[str]:
    yield from (_process(actor) for actor in _dead(found))
    yield from _adopting(found)


def _adopting(found: NodeEvidence) -> Iterator[str]:
    for actor in found.actors:
        if actor.instance == ADOPT and actor.beat and actor.beat.note:
            yield f"`nodeplane adopt`: {actor.beat.note}"


def _evidence(found: NodeEvidence) -> Iterator[str]:
    yield from _processes(found)
    for odd in _odd_conditions(found.node):
        yield f"condition {odd.get('type')} is {_condition(odd, found.now)}"
    yield from _taints(found)
    yield from (event_line(event) for event in found.events[-4:])


def _taints(found: NodeEvidence) -> Iterator[str]:
    yield from (f"taint {taint_text(taint)}" for taint in node_taints(found.node))
