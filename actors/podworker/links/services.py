"""The services of the API, as pods' environments tell of them: a copy that is kept, with no more than they need."""

import contextlib
from collections.abc import Iterable
from urllib.parse import urlsplit

from actors.podworker.environment.services import Address
from actors.podworker.types import Object
from protocols.kube.client import ApiClient
from protocols.kube.informer import Informer, InformerOptions
from protocols.kube.resources import SERVICES

FIRST_S = 5.0
"""How long pods wait for the first list, before they start with what is known."""
NAMES = ("name", "namespace", "uid", "resourceVersion")


class KnownServices:
    """Quiet: whoever starts a container looks at what there is then."""

    def __init__(self, client: ApiClient) -> None:
        self._informer = Informer(client, SERVICES, InformerOptions(keep=addresses), self)

    async def run(self) -> None:
        await self._informer.run()

    async def known(self) -> None:
        with contextlib.suppress(TimeoutError):
            await self._informer.wait_synced(FIRST_S)

    def items(self) -> Iterable[Object]:
        return tuple(self._informer.items.values())

    # the informer's handler

    def on_add(self, obj: Object) -> None: ...
    def on_update(self, old: Object, new: Object) -> None: ...
    def on_delete(self, obj: Object) -> None: ...


def addresses(service: Object) -> Object:
    """Name, address and ports of a service."""
    metadata, spec = service.get("metadata") or {}, service.get("spec") or {}
    return {
        "metadata": {key: metadata[key] for key in NAMES if key in metadata},
        "spec": {"clusterIP": spec.get("clusterIP"), "ports": spec.get("ports")},
    }


def address(url: str) -> Address:
    parts = urlsplit(url)
    return Address(parts.hostname or "", parts.port or 443)
