"""scheduler: gives every pending pod a node that can run it.

Why a process: placement may take long and must not delay what is running already.
Owns: nothing; what it assumes of bindings under way is rebuilt from the API.
On kill -9: pending pods wait; a binding is one write, so none is half done.
"""

import asyncio
from collections.abc import Callable

from actors.scheduler.binder import Binder
from actors.scheduler.cache import Cache
from actors.scheduler.queue import Queue
from actors.scheduler.types import PodView
from actors.scheduler.views import is_over, node_view, pod_view, wants_placement
from protocols.actor import Context, run_actor
from protocols.kube.client import ApiAway, ApiClient, ApiError, ClientOptions, Object
from protocols.kube.events import EventRecorder, RecorderOptions
from protocols.kube.informer import Informer, InformerOptions
from protocols.kube.meta import uid_of
from protocols.kube.resources import NODES, PODS

NAME = "default-scheduler"
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
        self._nodes = Informer(self._client, NODES, InformerOptions(), _Nodes(self._cache, self._changed))

    async def start(self) -> None:
        await self._client.start()
        self._context.spawn(self._recorder.run(), "events")
        self._context.spawn(self._nodes.run(), "nodes")
        self._context.spawn(self._pods.run(), "pods")
        self._context.spawn(self._run(), "placement")

    async def stop(self) -> None:
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
        uid, node = uid_of(pod), pod.get("spec", {}).get("nodeName", "")
        if is_over(pod):
            self.on_delete(pod)
        elif node:
            self._drop(uid)
            self._cache.place(node, pod_view(pod))
        elif wants_placement(pod, NAME):
            known = self._pending.get(uid)
            self._pending[uid] = pod
            if known is None or known.get("spec") != pod.get("spec"):
                self._queue.add(uid)
                self._wake.set()
        else:
            self._drop(uid)

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
            return
        view = pod_view(pod)
        node, why = ("", CLAIMS) if view.claims else self._cache.choose(view)
        try:
            await (self._bind(pod, view, node) if node else self._refuse(pod, uid, why))
        except (ApiAway, ApiError) as error:
            self._context.log.info("pod %s: %s", view.key, error)
            self._queue.retry(uid, self._now())

    async def _bind(self, pod: Object, view: PodView, node: str) -> None:
        """Assume first: the next pod must not be promised the same. Undone when the API refuses."""
        self._cache.place(node, view)
        try:
            await self._binder.bind(pod, node)
        except ApiError as error:
            self._cache.forget(view.uid)
            if error.code not in (404, 409):
                raise
            self._queue.failed(view.uid, self._now())  # bound by another, changed or gone: the informer tells
        except ApiAway:
            self._cache.forget(view.uid)
            raise
        else:
            self._drop(view.uid)

    async def _refuse(self, pod: Object, uid: str, why: str) -> None:
        self._queue.failed(uid, self._now())
        await self._binder.refuse(pod, why)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


class _Nodes:
    """What nodes do to the cache. Heartbeats that change nothing for placement wake nobody."""

    def __init__(self, cache: Cache, changed: Callable[[], None]) -> None:
        self._cache = cache
        self._changed = changed

    def on_add(self, obj: Object) -> None:
        self._cache.node(node_view(obj))
        self._changed()

    def on_update(self, old: Object, new: Object) -> None:
        if node_view(old) != node_view(new):
            self.on_add(new)

    def on_delete(self, obj: Object) -> None:
        self._cache.node_gone(obj["metadata"]["name"])


def main(argv: list[str] | None = None) -> None:
    run_actor("scheduler", Scheduler, argv)


if __name__ == "__main__":
    main()
