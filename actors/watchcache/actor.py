"""watchcache: turn one watch of each store into a stream with history for every resource (KEP-1904).

A process of its own, so that API servers can restart and scale without watching the store themselves. Owns the windows
of recent changes and the position of each stream, all in memory. On kill -9 nothing is lost: at start it lists the
store and reads the changes of the last revisions again, so followers continue from their marks, and watches from their
resourceVersions, without a new list.
"""

from actors.watchcache.cache.options import WatchcacheOptions
from actors.watchcache.shell.backend import StoreBackend
from actors.watchcache.shell.metrics import WatchcacheCollector
from protocols.actor import Context, run_actor
from protocols.bus import Call
from protocols.errors import NodeplaneError
from protocols.etcd.options import EtcdOptions, store_options
from protocols.kinds.table import ALL
from protocols.messages.objects import FRESHEN, Freshen
from protocols.messages.supervisor import Empty


class NotFresh(NodeplaneError, http=504, grpc="DEADLINE_EXCEEDED"):
    """Raised by `freshen` when the cache does not reach the revision within its bounded wait."""


class WatchcacheActor:
    """Becomes ready once the windows of every store are filled and their streams are owned."""

    def __init__(self, context: Context) -> None:
        self._context = context
        endpoints = store_options(context.settings, context.layout)
        self._backends = [self._backend(at, etcd) for at, etcd in enumerate(endpoints)]
        self._ready = False

    def _backend(self, at: int, etcd: EtcdOptions) -> StoreBackend:
        settings = self._context.settings
        store = settings.stores[at]
        options = WatchcacheOptions(
            etcd=etcd,
            resources=tuple(row for row in ALL if settings.store_of(row.full_name) == at),
            efficient_resumption=settings.gate("EfficientWatchResumption"),
            compaction_interval=0.0 if store.embedded else float(settings.etcd_compaction_s),
        )
        return StoreBackend(options, self._context.bus, self._on_store_changed)

    async def start(self) -> None:
        self._context.registry.register(WatchcacheCollector(self._backends))
        self._context.bus.serve(FRESHEN, Freshen, self._freshen)
        self._context.note(f"reading the store at {' and '.join(backend.name for backend in self._backends)}")
        for backend in self._backends:
            await backend.start(self._context)

    def _on_store_changed(self) -> None:
        """Update the readiness and the note: a store was published first, became unavailable or came back."""
        alarms = [
            f"the store at {backend.name} has alarms: {backend.alarms}; see docs/reference/store.md"
            for backend in self._backends
            if backend.alarms
        ]
        problems = alarms + [
            f"the store at {backend.name} is unavailable: {backend.unavailable_reason}"
            for backend in self._backends
            if backend.unavailable_reason
        ]
        revisions = " and ".join(str(backend.state.position) for backend in self._backends)
        note = "; ".join(problems) or f"from revision {revisions}"
        if not self._ready and all(backend.published for backend in self._backends):
            self._ready = True
            self._context.ready(note)
        elif problems or self._ready:
            self._context.note(note)

    async def _freshen(self, request: Freshen, call: Call) -> Empty:
        if not 0 <= request.store < len(self._backends):
            raise NotFresh(f"there is no store {request.store}")
        backend = self._backends[request.store]
        if not await backend.reach(request.revision):
            raise NotFresh(f"revision {request.revision} did not come; the cache is at {backend.state.position}")
        return Empty()

    async def stop(self) -> None:
        for backend in self._backends:
            await backend.close()


def main(argv: list[str] | None = None) -> None:
    run_actor("watchcache", WatchcacheActor, argv)


if __name__ == "__main__":
    main()
