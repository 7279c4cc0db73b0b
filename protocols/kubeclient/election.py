"""Who of several leads, by a Lease object, as upstream's controllers and schedulers elect. Pure: time is given.

A leader is sure of it until `renew_deadline` after the *start* of its last renewal that was taken. Others wait
`duration` from when they *saw* that renewal. So with clocks that run equally fast never two are sure at once.
"""

import msgspec

from protocols.kube.meta import Object
from protocols.kube.resources import LEASES


class ElectionOptions(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    identity: str
    """Differs between candidates; a candidate that was killed is the same one when it is back."""
    namespace: str = "kube-system"
    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0
    """Seconds between two looks."""


class Election:
    """One candidate's view. `seen` what was read or written last, then `wanted` what to write."""

    def __init__(self, options: ElectionOptions) -> None:
        self.options = options
        self._lease: Object | None = None
        self._term: tuple[object, ...] = ()
        self._seen_at = 0.0
        self._sure_until = float("-inf")

    @property
    def holder(self) -> str:
        return str(self._spec.get("holderIdentity") or "")

    @property
    def _spec(self) -> Object:
        return dict((self._lease or {}).get("spec") or {})

    def leads(self, now: float) -> bool:
        return now < self._sure_until

    def seen(self, lease: Object | None, now: float) -> None:
        """What is stored. A lease that did not change since is as old as when it was first seen."""
        self._lease = lease
        if self.holder != self.options.identity:
            self._sure_until = float("-inf")
        spec = self._spec
        term = (lease is None, *(spec.get(field) for field in ("holderIdentity", "renewTime", "leaseTransitions")))
        if term != self._term:
            self._term, self._seen_at = term, now

    def wanted(self, now: float, stamp: str) -> Object | None:
        """The lease to write, guarded by the version of the one seen; None while somebody else leads. `stamp` is now
        as people read it."""
        spec, mine = self._spec, self.holder == self.options.identity
        if not mine and self.holder and now < self._seen_at + self._patience(spec):
            return None
        transitions = int(spec.get("leaseTransitions") or 0)
        return self._with(
            {
                "holderIdentity": self.options.identity,
                "leaseDurationSeconds": max(1, round(self.options.duration)),
                "acquireTime": (spec.get("acquireTime") or stamp) if mine else stamp,
                "renewTime": stamp,
                "leaseTransitions": transitions + (self._lease is not None and not mine),
            }
        )

    def written(self, lease: Object, asked_at: float, now: float) -> None:
        """Our write was taken."""
        self.seen(lease, now)
        self._sure_until = asked_at + self.options.renew_deadline

    def released(self, stamp: str) -> Object | None:
        """The lease that lets another one lead at once; None when it is not ours."""
        if self.holder != self.options.identity:
            return None
        self._sure_until = float("-inf")
        spec = {**self._spec, "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": stamp}
        return self._with(spec)

    def _patience(self, spec: Object) -> float:
        """The holder's own promise counts where it is longer than ours."""
        told = spec.get("leaseDurationSeconds")
        return max(self.options.duration, float(told)) if isinstance(told, int | float) else self.options.duration

    def _with(self, spec: Object) -> Object:
        options = self.options
        fresh = {"name": options.name, "namespace": options.namespace}
        metadata = fresh if self._lease is None else self._lease["metadata"]
        return {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
