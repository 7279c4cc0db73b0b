"""Sizes of a Deployment's ReplicaSets: rolling update, recreation and proportional scaling. Pure.

Every function returns new sizes by name; a ReplicaSet that is not named keeps its size. Source:
pkg/controller/deployment of Kubernetes 1.36.
"""

from collections.abc import Sequence

from actors.controllers.workloads.replicas.views import Rollout, SetView

Sizes = dict[str, int]


def by_age(sets: Sequence[SetView]) -> list[SetView]:
    """Return ReplicaSets, the oldest first; the name decides between equals."""
    return sorted(sets, key=lambda each: (each.created, each.name))


def first_size(rollout: Rollout, sets: Sequence[SetView]) -> int:
    """Return the size that a new revision may have beside the others."""
    return _grown(rollout, 0, _pods(rollout, sets))


def _pods(rollout: Rollout, sets: Sequence[SetView]) -> int:
    """Return how many pods there are or may be.

    A ReplicaSet that was scaled down may have its pods still, how many is unknown until its controller saw the change.
    Upstream counts the sizes only, and has more pods than the ceiling for a moment.
    """
    if not all(replica_set.observed for replica_set in sets):
        return rollout.ceiling
    return sum(max(replica_set.replicas, replica_set.actual) for replica_set in sets)


def _grown(rollout: Rollout, size: int, total: int) -> int:
    if rollout.recreate:
        return rollout.replicas
    room = rollout.ceiling - total
    return size + min(room, rollout.replicas - size) if room > 0 else size


def roll(rollout: Rollout, new: SetView, old: Sequence[SetView]) -> Sizes:
    """Make one step of a rolling update: grow the new revision, or else shrink old ones.

    A revision that is taken back while it shrinks waits until its surplus is gone: available pods that are about to be
    deleted would allow to remove others. Upstream does not wait, and has fewer than the floor for a moment.
    """
    if new.replicas > rollout.replicas:
        return {new.name: rollout.replicas}
    if new.actual > new.replicas:
        return {}
    grown = _grown(rollout, new.replicas, _pods(rollout, old) + new.replicas)
    if grown != new.replicas:
        return {new.name: grown}
    return _shrink(rollout, new, by_age([replica_set for replica_set in old if replica_set.replicas > 0]))


def _shrink(rollout: Rollout, new: SetView, old: Sequence[SetView]) -> Sizes:
    """Remove unavailable old pods first, then available ones as far as the floor allows."""
    total = new.replicas + sum(replica_set.replicas for replica_set in old)
    budget = total - rollout.floor - (new.replicas - new.available)
    sizes = {replica_set.name: replica_set.replicas for replica_set in old}
    for replica_set in old:
        removed = max(0, min(budget, sizes[replica_set.name] - replica_set.available))
        sizes[replica_set.name] -= removed
        budget -= removed
    spare = new.available + sum(replica_set.available for replica_set in old) - rollout.floor
    if budget > 0:
        for replica_set in old:
            removed = max(0, min(spare, sizes[replica_set.name]))
            sizes[replica_set.name] -= removed
            spare -= removed
    return {
        replica_set.name: sizes[replica_set.name]
        for replica_set in old
        if sizes[replica_set.name] != replica_set.replicas
    }


def is_scaling(rollout: Rollout, sets: Sequence[SetView]) -> bool:
    """Return True if `replicas` changed since a ReplicaSet with pods was scaled last."""
    return any(
        replica_set.desired is not None and replica_set.desired != rollout.replicas
        for replica_set in sets
        if replica_set.replicas > 0
    )


def scale(rollout: Rollout, new: SetView | None, old: Sequence[SetView], before: int) -> Sizes:
    """Scale without a rollout: the only active ReplicaSet, or all in proportion.

    `before` is the size of the Deployment for ReplicaSets that do not record it.
    """
    everyone = [*old, *([new] if new else [])]
    active = [replica_set for replica_set in everyone if replica_set.replicas > 0]
    if len(active) <= 1:
        only = active[0] if active else new or (by_age(old)[-1] if old else None)
        return {only.name: rollout.replicas} if only is not None else {}
    if new is not None and _saturated(rollout, new):
        return {replica_set.name: 0 for replica_set in active if replica_set is not new}
    return {} if rollout.recreate else _in_proportion(rollout, active, before)


def _saturated(rollout: Rollout, new: SetView) -> bool:
    return new.replicas == new.desired == new.available == rollout.replicas


def _in_proportion(rollout: Rollout, active: Sequence[SetView], before: int) -> Sizes:
    ceiling = rollout.ceiling if rollout.replicas > 0 else 0
    change = ceiling - sum(replica_set.replicas for replica_set in active)
    ages = sorted(active, key=lambda each: each.created, reverse=change > 0)
    ordered = sorted(ages, key=lambda each: each.replicas, reverse=True)
    sizes, done = {}, 0
    for replica_set in ordered:
        share = _share(rollout, replica_set, change, done, before)
        sizes[replica_set.name] = replica_set.replicas + share
        done += share
    if change and ordered:
        first = ordered[0].name
        sizes[first] = max(0, sizes[first] + change - done)
    return sizes


def _share(rollout: Rollout, each: SetView, change: int, done: int, before: int) -> int:
    """Return the part of `change` that this ReplicaSet takes after the others took `done`."""
    if each.replicas == 0 or change in (0, done):
        return 0
    share, left = _fraction(rollout, each, before), change - done
    return min(share, left) if change > 0 else max(share, left)


def _fraction(rollout: Rollout, each: SetView, before: int) -> int:
    if rollout.replicas == 0:
        return -each.replicas
    most = each.most or before
    if most == 0:
        return 0
    return _rounded(each.replicas * rollout.ceiling, most) - each.replicas


def _rounded(value: int, divisor: int) -> int:
    """Divide and round half up."""
    return (2 * value + divisor) // (2 * divisor)
