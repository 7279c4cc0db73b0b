"""The embedded container runtime, as a process: so that a node needs nothing installed to run pods.

It serves CRI v1 on ROOT/runtime/runtime.sock and owns the sandboxes and containers under ROOT/runtime. Containers are
plain Linux processes, or simulated ones. On kill -9 it may lose open calls and event streams, and nothing else: each
container has a shim that goes on without it, and the next runtime takes over from the state directory.
"""

from functools import partial

from actors.runtime.metrics import RuntimeCollector
from actors.runtime.model.types import RuntimeOptions
from actors.runtime.plane_ports import plane_ports
from actors.runtime.rpc.desk import ImageDesk
from actors.runtime.server import RuntimeServer
from protocols.actor import Context, run_actor
from protocols.bus import Call
from protocols.layout import SYSTEM_CDI
from protocols.messages.runtime import OWNER, STOP_CONTAINERS, Empty, StopContainers


class Runtime:
    def __init__(self, context: Context) -> None:
        self._context = context
        layout = context.layout
        only = context.settings.images == "imported"
        options = RuntimeOptions(
            layout.runtime,
            layout.runtime_socket,
            imported_only=only,
            cdi=(*SYSTEM_CDI, layout.cdi),
            private_ports=partial(plane_ports, context.settings, layout),
        )
        self._server = RuntimeServer(options)

    async def start(self) -> None:
        await self._server.start()
        self._context.registry.register(RuntimeCollector(self._server))
        self._context.bus.serve(STOP_CONTAINERS, StopContainers, self._stop_containers)
        ImageDesk(self._server.images, self._server.pods).serve(self._context.bus)
        taken = f"{len(self._server.pods.containers)} containers taken over"
        self._context.ready(f"{taken}; {self._server.cgroups.describe()}")

    async def stop(self) -> None:
        await self._server.stop()

    async def _stop_containers(self, request: StopContainers, call: Call) -> Empty:
        await self._server.sandboxes.stop_all(request.grace_s)
        return Empty()


def main(argv: list[str] | None = None) -> None:
    run_actor(OWNER, Runtime, argv)


if __name__ == "__main__":
    main()
