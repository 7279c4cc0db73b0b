"""The stores of a plane, and the resources that each of them holds. Their revisions are independent."""

from collections.abc import Awaitable, Callable

from protocols.etcd.client import EtcdClient
from protocols.etcd.options import store_options
from protocols.kinds.served.row import Served
from protocols.kinds.table import DEFINITIONS
from protocols.process.layout import Layout
from protocols.process.settings import Settings

CHECK_SECONDS = 2.0


class Stores:
    """One etcd client for each store, in the order of the settings."""

    def __init__(self, settings: Settings, layout: Layout) -> None:
        self._settings = settings
        self._numbers: dict[str, int] = {}
        self._clients = [EtcdClient(options) for options in store_options(settings, layout)]

    async def start(self) -> None:
        for client in self._clients:
            await client.start()

    async def close(self) -> None:
        for client in self._clients:
            await client.close()

    def number_of(self, resource: Served) -> int:
        """Return the number of a resource's store.

        Custom resources are in the store of their definitions, so that the watch cache sees both in one order.
        """
        name = DEFINITIONS.full_name if resource.custom else resource.store
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = self._settings.store_of(name)
        return number

    def place(self, resource: Served) -> tuple[int, EtcdClient]:
        """Return the number and the client of a resource's store."""
        number = self.number_of(resource)
        return number, self._clients[number]

    def of(self, resource: Served) -> EtcdClient:
        return self._clients[self.number_of(resource)]

    def checks(self) -> dict[str, Callable[[], Awaitable[str]]]:
        """Return readiness checks by upstream's names: `etcd`, `etcd-override-0`."""
        names = ["etcd", *(f"etcd-override-{at}" for at in range(len(self._clients) - 1))]
        return {name: _check(client) for name, client in zip(names, self._clients, strict=True)}


def _check(client: EtcdClient) -> Callable[[], Awaitable[str]]:
    async def check() -> str:
        await client.current_revision(timeout=CHECK_SECONDS)
        return ""

    return check
