"""The runtime status a worker may act on: never older than what it did itself. One per pod.

Invariant: after `mutated()` no status from before that moment is ever returned, so nothing is created twice.
"""

from collections.abc import Callable

from actors.podworker.errors import PodStatusUnknown
from actors.podworker.ports import Pleg
from protocols.messages.pleg import PodStatus


class Observer:
    """`fence_ns`: what another life of this process may have done ended before then; 0 = there was none."""

    def __init__(self, uid: str, pleg: Pleg, clock: Callable[[], int], fence_ns: int = 0) -> None:
        self._uid = uid
        self._pleg = pleg
        self._clock = clock
        self._fence_ns = fence_ns
        self._min_ns = 0
        self._confirmed: PodStatus | None = None

    def mutated(self) -> None:
        """The runtime was changed, or may have been, up to now; also when the stream lost the pod: ask anew."""
        self._min_ns = max(self._clock(), self._min_ns + 1)
        self._confirmed = None

    def known(self) -> PodStatus | None:
        """What the stream tells, as it is."""
        return self._pleg.known(self._uid)

    async def status(self) -> PodStatus:
        """No RPC unless something was done since the last one. Raises PodStatusUnknown, BusError."""
        known = self._pleg.known(self._uid)
        if known is None and self._fence_ns:
            return await self.confirmed()  # pleg may only have started to list
        if known is not None and known.timestamp_ns > self._min_ns and not self._outdated(known):
            return _sound(known)
        if self._confirmed is not None:
            return _sound(self._confirmed)
        if self._min_ns == 0:
            return _sound(known or PodStatus(uid=self._uid))
        return await self._ask()

    async def confirmed(self) -> PodStatus:
        """Also newer than any earlier life of this process: for decisions that cannot be taken back."""
        if self._fence_ns:
            self._min_ns, self._confirmed = max(self._min_ns, self._fence_ns), None
            self._fence_ns = 0
        return await self.status()

    async def _ask(self) -> PodStatus:
        asked_ns = self._min_ns
        status = await self._pleg.newer_than(self._uid, asked_ns)
        if asked_ns == self._min_ns:
            self._confirmed = status
        return _sound(status)

    def _outdated(self, known: PodStatus) -> bool:
        return self._confirmed is not None and known.timestamp_ns < self._confirmed.timestamp_ns


def _sound(status: PodStatus) -> PodStatus:
    if status.error:
        raise PodStatusUnknown(f"pod {status.uid}: the runtime could not be asked: {status.error}")
    return status
