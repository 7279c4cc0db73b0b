"""Stages of a pod uid on a node: syncing -> terminating -> terminated -> finished, and no way back. Pure."""

import msgspec

from protocols.lifecycle.pods.types import PodStage


class Facts(msgspec.Struct, frozen=True):
    """Facts about a pod that move it to a later stage."""

    deleting: bool = False
    """The pod has a deletionTimestamp."""
    gone: bool = False
    """The API no longer has it."""
    finished: bool = False
    """All its containers ended for good, or it was rejected."""
    alive: bool = True
    """Containers run, or may run."""
    released: bool = False
    """Its devices are free."""
    removed: bool = False
    """Neither API nor runtime has anything of it."""


def advance(stage: PodStage, facts: Facts) -> PodStage:
    """Return the next stage, at most one step forward."""
    if stage is PodStage.SYNCING and (facts.deleting or facts.gone or facts.finished):
        return PodStage.TERMINATING
    if stage is PodStage.TERMINATING and not facts.alive and facts.released:
        return PodStage.TERMINATED
    if stage is PodStage.TERMINATED and (facts.deleting or facts.gone) and facts.removed:
        return PodStage.FINISHED
    return stage
