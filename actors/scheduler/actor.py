"""scheduler: gives every pending pod a node that can run it.

Why a process: placement may take long and must not delay what is running already.
Owns: nothing; what it assumes of bindings under way is rebuilt from the API.
On kill -9: pending pods wait; a binding is one write, so none is half done. Where other control planes use the same
store only the one that holds the lease places pods; the others know them all and take over when it ends.
"""

import asyncio
import logging
from collections.abc import Callable

from actors.scheduler.binder import Binder
from actors.scheduler.cache import Cache
from actors.scheduler.errors import ObjectUnreadable
from actors.scheduler.queue import Queue
from actors.scheduler.types import PodView
from actors.scheduler.views import is_over, node_name_of, node_view, pod_view, readable, wants_placement
from protocols.actor import Context, run_actor
from protocols.actor.candidate import candidate
from protocols.kube.client import ApiAway, ApiClient, ApiError, ClientOptions, Object
from protocols.kube.events import EventRecorder, RecorderOptions
from protocols.kube.informer import Informer, InformerOptions
from protocols.kube.meta import key_of, name_of, uid_of
from protocols.kube.resources import NODES, PODS

NAME = "default-scheduler"
LEASE = "kube-scheduler"
CLAIMS = "resource claims are not supported yet by this scheduler (DRA is stored and served only)"


class Scheduler:
    def __init__(self, context: Context) -> None:
        self._context = context
        cert, key = context.layout.client_cert("scheduler")
        options = ClientOptions(server=context.settings.api_url, ca=context.layout.ca_cert, cert=cert, key=key)
        self._client = ApiClient(options)
        self._recorder = EventRecorder(self._client, RecorderOptions(component=NAME))
        self._binder = Binder(self._client, self._recorder)
        self._cache = Cache()
        self._queue = Queue()
        self._pending: dict[str, Object] = {}
        self._wake = asyncio.Event()
        self._pods = Informer(self._client, PODS, InformerOptions(), self)
        self._leader = candidate(context, self._client, LEASE)
        self._nodes = Informer(self._client, NODES, InformerOptions(), _Nodes(self._cache, context.log, self._changed))

    async def start(self) -> None:
        await self._client.start()
        self._context.spawn(self._recorder.run(), "events")
        self._context.spawn(self._nodes.run(), "nodes")
        self._context.spawn(self._pods.run(), "pods")
        self._context.spawn(self._run(), "placement")

    async def stop(self) -> None:
        if self._leader:
            await self._leader.release()
        await self._client.close()

    # pods, as the informer tells them

    def on_add(self, obj: Object) -> None:
        self._take(obj)

    def on_update(self, old: Object, new: Object) -> None:
        self._take(new)

    def on_delete(self, obj: Object) -> None:
        uid = uid_of(obj)
        self._drop(uid)
        if self._cache.forget(uid):
            self._changed()

    def _take(self, pod: Object) -> None:
        if not readable(pod):
            return
        uid, node = uid_of(pod), node_name_of(pod)
        if is_over(pod):
            self.on_delete(pod)
        elif node:
            self._drop(uid)
            self._count(pod, node)
        elif wants_placement(pod, NAME):
            known = self._pending.get(uid)
            self._pending[uid] = pod
            if known is None or known.get("spec") != pod.get("spec"):
                self._queue.add(uid)
                self._wake.set()
        else:
            self.on_delete(pod)

    def _count(self, pod: Object, node: str) -> None:
        try:
            self._cache.place(node, pod_view(pod))
        except ObjectUnreadable as error:
            self._context.log.warning("pod %s counts as nothing on %s: %s", key_of(pod), node, error)

    def _drop(self, uid: str) -> None:
        self._pending.pop(uid, None)
        self._queue.remove(uid)

    def _changed(self) -> None:
        """Something got free or new: who waits may fit now."""
        self._queue.changed()
        self._wake.set()

    # placement

    async def _run(self) -> None:
        await asyncio.gather(self._nodes.wait_synced(3600), self._pods.wait_synced(3600))
        self._context.ready()
        if self._leader:
            await self._leader.lead(self._context.note)
            self._context.spawn(self._leader.keep(), "lease")
        while True:
            for uid in self._queue.ready(self._now()):
                await self._place(uid)
            await self._rest()

    async def _rest(self) -> None:
        """Until something changed, or the earliest back-off of a pod that is due."""
        at = self._queue.next_at()
        try:
            await asyncio.wait_for(self._wake.wait(), None if at is None else max(0.0, at - self._now()))
        except TimeoutError:
            return
        self._wake.clear()

    async def _place(self, uid: str) -> None:
        pod = self._pending.get(uid)
        if pod is None:
            self._queue.remove(uid)
            return
        try:
            await self._decide(pod, uid)
        except (ApiAway, ApiError) as error:
            self._context.log.info("pod %s: %s", key_of(pod), error)
            self._queue.retry(uid, self._now())

    async def _decide(self, pod: Object, uid: str) -> None:
        """A pod that was promised a node keeps it: the binding may have been written although no answer came."""
        try:
            view = pod_view(pod)
        except ObjectUnreadable as error:
            return await self._refuse(pod, uid, str(error))
        node, why = ("", CLAIMS) if view.claims else (self._cache.promised(uid), "")
        if not node and not why:
            node, why = self._cache.choose(view)
        return await (self._bind(pod, view, node) if node else self._refuse(pod, uid, why))

    async def _bind(self, pod: Object, view: PodView, node: str) -> None:
        """Promise first: the next pod must not get the same. Only a refusal for good takes the promise back: after 409
        (bound already, or just changed) and after silence it stands until the informer tells, or the next try."""
        self._cache.place(node, view)
        try:
            await self._binder.bind(pod, node)
        except ApiError as error:
            if error.code != 409:
                self._cache.forget(view.uid)
            raise
        self._drop(view.uid)

    async def _refuse(self, pod: Object, uid: str, why: str) -> None:
        self._queue.failed(uid, self._now())
        await self._binder.refuse(pod, why)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


class _Nodes:
    """What nodes do to the cache. Heartbeats that change nothing for placement wake nobody."""

    def __init__(self, cache: Cache, log: logging.Logger, changed: Callable[[], None]) -> None:
        self._cache = cache
        self._log = log
        self._changed = changed

    def on_add(self, obj: Object) -> None:
        try:
            view = node_view(obj)
        except ObjectUnreadable as error:
            self._log.warning("node %s is not used: %s", name_of(obj), error)
            self._cache.node_gone(name_of(obj))
            return
        if self._cache.node(view):
            self._changed()

    def on_update(self, old: Object, new: Object) -> None:
        self.on_add(new)

    def on_delete(self, obj: Object) -> None:
        self._cache.node_gone(name_of(obj))


def main(argv: list[str] | None = None) -> None:
    run_actor("scheduler", Scheduler, argv)


if __name__ == "__main__":
    main()
