"""controllers: keeps namespaces as clients expect them, and tells when a node went silent.

Why a process: what it does is nobody's way of doing something else; it may lag or die and only chores wait.
Owns: nothing.
On kill -9: chores wait; each is decided anew from the API.
"""

import asyncio

from actors.controllers.keeper import ContentHandler, Known, NamespaceKeeper
from actors.controllers.namespaces import ROOT_CA
from actors.controllers.node_keeper import NodeKeeper
from protocols.actor import Context, run_actor
from protocols.kube.client import ApiClient, ClientOptions
from protocols.kube.informer import Handler, Informer, InformerOptions
from protocols.kube.resources import CONFIGMAPS, LEASES, NAMESPACES, NODES, SERVICEACCOUNTS, Resource

SYNC_S = 3600.0


class Controllers:
    def __init__(self, context: Context) -> None:
        self._context = context
        cert, key = context.layout.client_cert("controllers")
        ca = context.layout.ca_cert
        self._client = ApiClient(ClientOptions(server=context.settings.api_url, ca=ca, cert=cert, key=key))
        self._informers: list[Informer] = []
        known = Known()
        self._keeper = NamespaceKeeper(self._client, ca.read_text(), context.log, known)
        self._node_keeper = NodeKeeper(self._client, context.log)
        content = ContentHandler(self._keeper)
        known.namespaces = self._inform(NAMESPACES, self._keeper).items
        known.accounts = self._inform(SERVICEACCOUNTS, content, field="metadata.name=default").items
        known.roots = self._inform(CONFIGMAPS, content, field=f"metadata.name={ROOT_CA}").items
        self._node_keeper.nodes = self._inform(NODES, self._node_keeper).items
        self._inform(LEASES, self._node_keeper.leases, namespace="kube-node-lease")

    def _inform(self, resource: Resource, handler: Handler, namespace: str = "", field: str = "") -> Informer:
        options = InformerOptions(namespace=namespace, field_selector=field)
        self._informers.append(Informer(self._client, resource, options, handler))
        return self._informers[-1]

    async def start(self) -> None:
        await self._client.start()
        for number, informer in enumerate(self._informers):
            self._context.spawn(informer.run(), f"informer-{number}")
        self._context.spawn(self._run(), "namespaces")

    async def stop(self) -> None:
        await self._client.close()

    async def _run(self) -> None:
        await asyncio.gather(*(informer.wait_synced(SYNC_S) for informer in self._informers))
        self._keeper.look("default")
        self._context.spawn(self._node_keeper.run(), "nodes")
        self._context.ready()
        await self._keeper.run()


def main(argv: list[str] | None = None) -> None:
    run_actor("controllers", Controllers, argv)


if __name__ == "__main__":
    main()
