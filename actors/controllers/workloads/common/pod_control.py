"""Create and delete the pods of a workload: in batches that double, with events, and with expectations.

Expectations are creations and deletions that the informer has not shown yet. A controller decides about pods only when
the informer shows all that it did before, or it would do it twice. Pods are expected by name, chosen before the
request, so that a request whose answer was lost can be looked up.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from actors.controllers.workloads.common.pods import PodView, pod_view
from actors.controllers.workloads.common.templates import ALPHABET
from protocols.kinds.table import PODS
from protocols.kube.errors import ApiAway, ApiError
from protocols.kube.meta import Object, meta, name_of, namespace_of, uid_of
from protocols.kubeclient.client import ApiClient, find
from protocols.kubeclient.events import EventRecorder

MOST_AT_ONCE = 500
"""Pods that one pass creates or deletes at most."""
FIRST_BATCH = 1
OVERDUE_S = 5.0
"""Seconds after which an expected change is looked up with a live read."""
RANDOM_LETTERS = 5


class Expectations:
    """Own creations and deletions that the informer does not show yet, by owner uid.

    Memory is bounded by the requests of one pass of each owner.
    """

    def __init__(self) -> None:
        self._created: defaultdict[str, dict[str, float]] = defaultdict(dict)
        """Time of each expected creation, by name."""
        self._deleted: defaultdict[str, dict[tuple[str, str], float]] = defaultdict(dict)
        """Time of each expected deletion, by name and uid."""

    def will_create(self, owner: str, name: str, now: float) -> None:
        self._created[owner][name] = now

    def will_delete(self, owner: str, name: str, uid: str, now: float) -> None:
        self._deleted[owner][name, uid] = now

    def seen(self, owner: str, name: str) -> None:
        """Call it when the informer shows the pod, or its creation was rejected."""
        if owner in self._created:
            self._created[owner].pop(name, None)
            if not self._created[owner]:
                del self._created[owner]

    def gone(self, owner: str, name: str, uid: str) -> None:
        """Call it when the informer shows the deletion, or the deletion was rejected."""
        if owner in self._deleted:
            self._deleted[owner].pop((name, uid), None)
            if not self._deleted[owner]:
                del self._deleted[owner]

    def met(self, owner: str) -> bool:
        return owner not in self._created and owner not in self._deleted

    def overdue(self, owner: str, now: float, after: float) -> tuple[list[str], list[tuple[str, str]]]:
        """Return the creations (names) and deletions (names and uids) expected for longer than `after` seconds."""
        created, deleted = self._created.get(owner, {}), self._deleted.get(owner, {})
        return [name for name, at in created.items() if now - at >= after], [
            pod for pod, at in deleted.items() if now - at >= after
        ]

    def forget(self, owner: str) -> None:
        self._created.pop(owner, None)
        self._deleted.pop(owner, None)


class PodControl:
    """The pods of the workloads of one kind."""

    def __init__(self, client: ApiClient, recorder: EventRecorder) -> None:
        self.client, self.recorder = client, recorder
        self._expected = Expectations()

    # what the informer shows

    def observe(self, pod: Object, owner: str) -> None:
        self._expected.seen(owner, name_of(pod))
        if meta(pod).get("deletionTimestamp"):
            self._expected.gone(owner, name_of(pod), uid_of(pod))

    def observe_gone(self, pod: Object, owner: str) -> None:
        self._expected.seen(owner, name_of(pod))
        self._expected.gone(owner, name_of(pod), uid_of(pod))

    def forget(self, owner: str) -> None:
        self._expected.forget(owner)

    # what the controller does

    async def settled(self, owner: Object, shown: Callable[[str], Object | None]) -> bool:
        """Return True when the informer shows everything done before.

        `shown` returns the informer's pod by key. What it does not show in time is looked up. Raises ApiError and
        ApiAway.
        """
        uid, namespace = uid_of(owner), namespace_of(owner)
        names, deletions = self._expected.overdue(uid, self._now(), OVERDUE_S)
        for name in names:
            if shown(f"{namespace}/{name}") or await self._live(namespace, name) is None:
                self._expected.seen(uid, name)
        for name, pod_uid in deletions:
            live = await self._live(namespace, name)
            known = shown(f"{namespace}/{name}")
            if known is None or uid_of(known) != pod_uid or (live and live.uid == pod_uid and not live.deleting):
                self._expected.gone(uid, name, pod_uid)
        return self._expected.met(uid)

    async def create(self, owner: Object, pods: Sequence[Object]) -> None:
        """Create pods in batches of 1, 2, 4 ... Stop after a batch with an error and raise its first one."""
        done, batch = 0, FIRST_BATCH
        while done < len(pods):
            now = pods[done : done + batch]
            await _all(self._create(owner, pod) for pod in now)
            done, batch = done + len(now), batch * 2

    async def delete(self, owner: Object, pods: Iterable[PodView]) -> None:
        await _all(self._delete(owner, pod) for pod in pods)

    async def _create(self, owner: Object, pod: Object) -> None:
        metadata = meta(pod)
        metadata["name"] = f"{metadata['generateName']}{_letters()}"
        self._expected.will_create(uid_of(owner), name_of(pod), self._now())
        try:
            await self.client.create(PODS, pod, namespace_of(owner))
        except ApiError as error:
            self._expected.seen(uid_of(owner), name_of(pod))
            if not error.namespace_ends:
                # Without the name, which differs each time, a repeated error is one event with a count.
                text = str(error).replace(name_of(pod), metadata["generateName"])
                self.recorder.event(owner, "Warning", "FailedCreate", f"Error creating: {text}")
                raise
        except asyncio.CancelledError:
            self._expected.seen(uid_of(owner), name_of(pod))
            raise
        else:
            self.recorder.event(owner, "Normal", "SuccessfulCreate", f"Created pod: {name_of(pod)}")

    async def _delete(self, owner: Object, pod: PodView) -> None:
        self._expected.will_delete(uid_of(owner), pod.name, pod.uid, self._now())
        try:
            await self.client.delete(PODS, pod.name, pod.namespace, uid=pod.uid)
        except (ApiAway, ApiError) as error:
            if isinstance(error, ApiError):
                self._expected.gone(uid_of(owner), pod.name, pod.uid)
                if error.code in (404, 409):
                    return
            self.recorder.event(owner, "Warning", "FailedDelete", f"Error deleting: {error}")
            raise
        self.recorder.event(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}")

    async def _live(self, namespace: str, name: str) -> PodView | None:
        pod = await find(self.client, PODS, name, namespace)
        return None if pod is None else pod_view(pod)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


async def _all(work: "Iterable[asyncio._CoroutineLike[None]]") -> None:
    """Await all, then raise the first error."""
    for outcome in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def _letters() -> str:
    return "".join(random.choices(ALPHABET, k=RANDOM_LETTERS))
