"""podworker runs the pods of this node; it is the only writer of pod status, the Node object and its lease.

Why a process: what decides about containers must not share its fate with the runtime's connection or with devices.
Owns nothing durable: desired state comes from the API, actual state from pleg, device health from health.
On kill -9: statuses lag until the restart; it acts only on what pleg confirms, so nothing is created twice.
"""

from actors.podworker.clients.bus import Streams
from actors.podworker.endpoint.routes import NodeServers, PodLookup
from actors.podworker.node.controller import NodeController
from actors.podworker.pods.controller import PodController
from protocols.actor import Context, run_actor
from protocols.kubeclient.client import ApiClient, ClientOptions
from protocols.kubeclient.events import EventRecorder, RecorderOptions

USER = "podworker"


class PodWorkerActor:
    """Three parts that share the streams of other actors: node, pods and endpoint."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._client = ApiClient(_client_options(context))
        self._events = EventRecorder(
            self._client, RecorderOptions(component="kubelet", host=context.settings.node_name)
        )
        self._streams = Streams()
        self._node = NodeController(context, self._client, self._events, self._streams)
        self._pods = PodController(context, self._client, self._events, self._streams, self._node)
        statuses = self._streams.pod_status.items
        listed = self._streams.pods_listed
        view = PodLookup(self._pods.objects, statuses.get, statuses.values, self._pods.complete, listed)
        self._endpoint = NodeServers(context, view, self._client)

    async def start(self) -> None:
        self._context.layout.kubelet.joinpath("manifests").mkdir(mode=0o700, parents=True, exist_ok=True)
        await self._client.start()
        await self._endpoint.start()
        self._streams.follow(self._context.bus)
        self._context.spawn(self._events.run(), "events")
        self._pods.start()
        self._node.start(self._endpoint.port)

    async def stop(self) -> None:
        self._pods.close()
        await self._endpoint.close()
        await self._client.close()


def _client_options(context: Context) -> ClientOptions:
    certificate, key = context.layout.client_cert(USER)
    server = context.settings.api_url
    return ClientOptions(server=server, ca=context.layout.ca_cert, cert=certificate, key=key, user_agent=USER)


def main(argv: list[str] | None = None) -> None:
    run_actor("podworker", PodWorkerActor, argv)


if __name__ == "__main__":
    main()
