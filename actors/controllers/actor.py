"""controllers: keeps namespaces as clients expect them, and tells when a node went silent.

Why a process: what it does is nobody's way of doing something else; it may lag or die and only chores wait.
Owns: nothing.
On kill -9: chores wait; each is decided anew from the API.
"""

import asyncio

from actors.controllers.keeper import NamespaceKeeper
from actors.controllers.node_keeper import NodeKeeper
from protocols.actor import Context, run_actor
from protocols.kube.client import ApiClient, ClientOptions, Object
from protocols.kube.informer import Handler, Informer, InformerOptions
from protocols.kube.meta import namespace_of
from protocols.kube.resources import LEASES, NAMESPACES, NODES, SERVICEACCOUNTS, Resource


class Controllers:
    def __init__(self, context: Context) -> None:
        self._context = context
        cert, key = context.layout.client_cert("controllers")
        ca = context.layout.ca_cert
        self._client = ApiClient(ClientOptions(server=context.settings.api_url, ca=ca, cert=cert, key=key))
        self._keeper = NamespaceKeeper(self._client, ca.read_text(), context.log, lambda: self._namespaces.items)
        self._node_keeper = NodeKeeper(self._client, context.log, lambda: self._nodes.items)
        self._namespaces = self._informer(NAMESPACES, self._keeper)
        self._accounts = self._informer(SERVICEACCOUNTS, _Content(self._keeper))
        self._nodes = self._informer(NODES, self._node_keeper)
        self._leases = self._informer(LEASES, self._node_keeper.leases, namespace="kube-node-lease")

    def _informer(self, resource: Resource, handler: Handler, namespace: str = "") -> Informer:
        return Informer(self._client, resource, InformerOptions(namespace=namespace), handler)

    async def start(self) -> None:
        await self._client.start()
        for informer in (self._namespaces, self._accounts, self._nodes, self._leases):
            self._context.spawn(informer.run(), "informer")
        self._context.spawn(self._run(), "namespaces")

    async def stop(self) -> None:
        await self._client.close()

    async def _run(self) -> None:
        await asyncio.gather(*(each.wait_synced(3600) for each in (self._namespaces, self._nodes, self._leases)))
        self._keeper.look("default")
        self._context.spawn(self._node_keeper.run(), "nodes")
        self._context.ready()
        await self._keeper.run()


class _Content:
    """A default service account that was deleted comes back."""

    def __init__(self, keeper: NamespaceKeeper) -> None:
        self._keeper = keeper

    def on_add(self, obj: Object) -> None:
        """It is there."""

    def on_update(self, old: Object, new: Object) -> None:
        """It is there."""

    def on_delete(self, obj: Object) -> None:
        self._keeper.content_changed(namespace_of(obj))


def main(argv: list[str] | None = None) -> None:
    run_actor("controllers", Controllers, argv)


if __name__ == "__main__":
    main()
