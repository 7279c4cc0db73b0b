"""Start the EndpointSlice controller when the first service besides `kubernetes` appears.

Garbage collection follows the metadata of services already: without one this costs nothing, not even its code.
"""

import asyncio

from actors.controllers.common.informers import FirstObject
from protocols.actor import Context
from protocols.kinds.table import SERVICES, Resource
from protocols.kube.meta import Object, key_of
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.informer import ResourceEventHandler

KUBERNETES = "default/kubernetes"
"""The service whose endpoints the API server keeps."""
SYNC_S = 3600.0


class ServiceControllers:
    """Starts the controller once a service exists and this process leads."""

    def __init__(self, client: ApiClient, context: Context) -> None:
        self._client, self._context = client, context
        self._leads = asyncio.Event()

    def first_object(self, resource: Resource) -> ResourceEventHandler | None:
        """Return the handler that starts the controller; None for other kinds than services."""
        return FirstObject(self._begin, _is_other) if resource is SERVICES else None

    def lead(self) -> None:
        """Start work. Call it when this process leads."""
        self._leads.set()

    def _begin(self) -> None:
        self._context.spawn(self._run(), "endpoint slices")

    async def _run(self) -> None:
        await self._leads.wait()
        from actors.controllers.services.controller import EndpointSliceController

        await EndpointSliceController(self._client, self._context.log).run(self._context, SYNC_S)


def _is_other(service: Object) -> bool:
    return key_of(service) != KUBERNETES
