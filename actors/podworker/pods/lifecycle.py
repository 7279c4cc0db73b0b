"""The stages of a pod uid on this node: syncing -> terminating -> terminated -> finished, and no way back. Pure."""

import msgspec

from actors.podworker.types import SIDECAR, PodSpec, Stage
from protocols.messages.pleg import ContainerStatus


class Facts(msgspec.Struct, frozen=True):
    """What decides the next stage."""

    deleting: bool = False
    """The API wants the pod gone (deletionTimestamp)."""
    gone: bool = False
    """The API no longer has it."""
    over: bool = False
    """All its containers ended for good, or admission refused it."""
    alive: bool = True
    """Something of it runs, or may run."""
    released: bool = False
    """Its devices are free again."""
    removed: bool = False
    """Neither API nor runtime holds anything of it."""


def advance(stage: Stage, facts: Facts) -> Stage:
    """At most one step forward."""
    if stage is Stage.SYNCING and (facts.deleting or facts.gone or facts.over):
        return Stage.TERMINATING
    if stage is Stage.TERMINATING and not facts.alive and facts.released:
        return Stage.TERMINATED
    if stage is Stage.TERMINATED and (facts.deleting or facts.gone) and facts.removed:
        return Stage.FINISHED
    return stage


def victims(spec: PodSpec, live: list[ContainerStatus]) -> list[ContainerStatus]:
    """Whom to stop now: everything but sidecars together, then sidecars one by one, last first."""
    order = {c.name: index for index, c in enumerate(spec.containers) if c.kind == SIDECAR}
    main = [c for c in live if c.name not in order]
    if main:
        return main
    return sorted(live, key=lambda c: order[c.name], reverse=True)[:1]
