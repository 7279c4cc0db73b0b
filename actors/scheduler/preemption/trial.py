"""A pending pod on one node with some pods taken away: what that frees, and whether the pod fits then.

A claim is free once all pods that use it are gone. One whose users are gone already is about to be free: it waits for
the claim controller.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping

import msgspec

from actors.scheduler.claims.claim_store import ClaimStore
from actors.scheduler.claims.device_ledger import DeviceLedger
from actors.scheduler.model.claim_demand import Fit
from actors.scheduler.model.nominations import Nomination
from actors.scheduler.model.views import NodeLoad, PodView
from actors.scheduler.nodes.node_cache import INSUFFICIENT, TOO_MANY
from protocols.dra.allocator.types import Pool
from protocols.dra.pods import consumers, has_released_claims, is_pod
from protocols.dra.types import PoolId
from protocols.kinds import views
from protocols.kube.meta import namespace_of, terminating, uid_of
from protocols.scheduling.host_ports import NO_PORTS, has_conflict


class ClaimUse(msgspec.Struct, frozen=True):
    """A claim that holds devices, and the pods that keep it from being freed."""

    uid: str
    users: frozenset[str]


class ClaimUses:
    """Claims by the pool of their devices, for one plan."""

    def __init__(self, claims: ClaimStore, ledger: DeviceLedger, pods: Mapping[str, views.Pod]) -> None:
        self._claims, self._ledger, self._pods = claims, ledger, pods
        self._by_pool: dict[PoolId, tuple[ClaimUse, ...]] = {}

    def of(self, pools: Iterable[Pool]) -> list[ClaimUse]:
        """Return the claims with devices in these pools that can be freed by the removal of pods."""
        by_claim: dict[str, ClaimUse] = {}
        for pool in pools:
            if (uses := self._by_pool.get(pool.id)) is None:
                uses = self._by_pool[pool.id] = tuple(self._of_pool(pool))
            by_claim |= {use.uid: use for use in uses}
        return list(by_claim.values())

    def _of_pool(self, pool: Pool) -> Iterable[ClaimUse]:
        holders = dict.fromkeys(uid for device in pool.devices for uid in self._ledger.holders(device.id))
        for uid in holders:
            claim = self._claims.holder(uid)
            users = None if claim is None else self._users(claim)
            if users is not None:
                yield ClaimUse(uid, users)

    def _users(self, claim: views.ResourceClaim) -> frozenset[str] | None:
        """Return the pods that still use a claim; None if it stays allocated without them."""
        users = consumers(claim)
        if not all(map(is_pod, users)) or not (users or terminating(claim)):
            return None
        pods = ((user.get("uid"), self._pods.get(f"{namespace_of(claim)}/{user.get('name')}")) for user in users)
        return frozenset(str(uid) for uid, pod in pods if pod and uid_of(pod) == uid and not has_released_claims(pod))


Search = Callable[[frozenset[str]], Awaitable[Fit | None]]
"""Finds devices for the pod with some claims freed; None if it took too long."""


Rejection = Callable[[frozenset[str]], str]
"""Returns why rules about other pods reject the node with some pods removed; empty if they do not."""


def _not_rejected(removed: frozenset[str]) -> str:
    return ""


class Trial:
    """One node for one pod; device searches are cached by the claims that are freed."""

    def __init__(
        self, pod: PodView, load: NodeLoad, ahead: Iterable[Nomination], backed: frozenset[str],
        uses: list[ClaimUse], search: Search, rejection: Rejection = _not_rejected,
    ) -> None:  # fmt: skip
        self._pods = dict(load.pods)
        ahead = list(ahead)
        self._missing = _missing(pod, load, ahead, backed)
        self._in_the_way = {
            uid for uid, other in self._pods.items() if pod.ports and has_conflict(other.ports, pod.ports)
        }
        """Pods that hold a port of the pod; "" stands for a nominated one, which stays."""
        if any(pod.ports and has_conflict(nomination.ports, pod.ports) for nomination in ahead):
            self._in_the_way.add("")
        self.uses, self._search, self._rejection = uses, search, rejection
        self._fits: dict[frozenset[str], Fit | None] = {}

    def users(self) -> set[str]:
        """Return the pods, here or on other nodes, whose removal may free a device."""
        return set().union(*(use.users for use in self.uses))

    async def fits(self, removed: frozenset[str]) -> bool:
        if self.short(removed) or not self._in_the_way <= removed or self._rejection(removed):
            return False
        fit = await self.fit(removed)
        return fit is not None and not fit.reason

    def short(self, removed: frozenset[str]) -> list[str]:
        """Return the resources of which there is still too little."""
        gone = [self._pods[uid].requests for uid in removed if uid in self._pods] if self._missing else ()
        return [
            name for name, missing in self._missing.items() if sum(requests.get(name, 0) for requests in gone) < missing
        ]

    def reasons(self, removed: frozenset[str]) -> list[str]:
        if not self._in_the_way <= removed:
            return [NO_PORTS]
        if short := self.short(removed):
            return [TOO_MANY if name == "pods" else f"{INSUFFICIENT}{name}" for name in sorted(short)]
        return [why] if (why := self._rejection(removed)) else []

    async def fit(self, removed: frozenset[str]) -> Fit | None:
        """Return the devices that the pod gets; None if it took too long to find out."""
        freed = frozenset(use.uid for use in self.uses if use.users <= removed)
        if freed not in self._fits:
            self._fits[freed] = await self._search(freed)
        return self._fits[freed]


def _missing(pod: PodView, load: NodeLoad, ahead: Iterable[Nomination], backed: frozenset[str]) -> dict[str, int]:
    """Return what the node lacks by resource, with the nominated pods ahead on it."""
    allocatable, kept = load.view.allocatable, [nomination.requests for nomination in ahead]
    missing = {
        name: asked
        - allocatable.get(name, 0)
        + load.used.get(name, 0)
        + sum(requests.get(name, 0) for requests in kept)
        for name, asked in pod.requests.items()
        if asked and (allocatable.get(name) or name not in backed)
    }
    return {name: amount for name, amount in missing.items() if amount > 0}
