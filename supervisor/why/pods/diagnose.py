"""The table of rules for pods, tried in order."""

from collections.abc import Callable

from protocols.kube.errors import SHAPE_ERRORS
from supervisor.base.errors import SupervisorError
from supervisor.why.model.text import joined
from supervisor.why.model.types import Diagnosis, Finding, PodEvidence
from supervisor.why.pods import admission, ending, running, scheduling, starting
from supervisor.why.pods.view import ContainerView, containers, status_of

Rule = Callable[[PodEvidence], Finding | None]


def otherwise(found: PodEvidence) -> Finding:
    """Describe a pod for which no rule applies: its phase, and what each container waits for."""
    states = joined(
        f"{container.kind} {container.name} {container.waiting or _state(container)}"
        for container in containers(found.pod or {})
    )
    reason = f"its phase is {status_of(found.pod or {}).get('phase')}: {states}"
    return Finding("starting", reason, found.unread)


def _state(container: ContainerView) -> str:
    if not container.running:
        return "has ended" if container.ended else "has not started"
    return "runs and is ready" if container.ready else "runs and is not ready yet"


RULES: tuple[Rule, ...] = (
    ending.gone,
    ending.evicted,
    ending.terminating,
    admission.rejected,
    ending.failed,
    ending.succeeded,
    scheduling.gated,
    scheduling.other_scheduler,
    scheduling.missing_claim,
    scheduling.no_node,
    scheduling.unscheduled,
    admission.no_such_node,
    admission.node_lost,
    admission.waits_for_plugin,
    admission.not_admitted,
    running.crash_loop,
    running.partly_ended,
    starting.image,
    starting.configuration,
    starting.claims,
    starting.volumes,
    starting.sandbox,
    starting.post_start,
    starting.step_in_progress,
    running.not_ready,
    running.gate,
    running.restarted,
    running.broken_device,
    running.slow_start,
    running.fine,
    otherwise,
)
"""The last one always matches."""


def diagnose_pod(found: PodEvidence) -> Diagnosis:
    """Raises SupervisorError for an object of the wrong shape, which another server may have admitted."""
    try:
        finding = next(finding for rule in RULES if (finding := rule(found)) is not None)
    except SHAPE_ERRORS as error:
        raise SupervisorError(f"pod {found.key} has a field of the wrong shape: {error!r:.200}") from None
    return Diagnosis(f"pod/{found.key}", finding.state, finding.reason, finding.evidence, finding.advice)
