"""Connections to a running plane: its API as administrator, and the bus of a node."""

import difflib
import string
from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import asynccontextmanager
from typing import NamedTuple, TypeVar

from protocols.bus import Bus, BusOptions
from protocols.errors import NodeplaneError
from protocols.kube.errors import ApiError
from protocols.kube.meta import Object, name_of
from protocols.kube.resources import Resource
from protocols.kubeclient.client import ApiClient, ClientOptions
from protocols.process.layout import Layout, layout
from protocols.process.settings import load_settings
from supervisor.base.errors import Usage
from supervisor.client.connection import Asking, running

T = TypeVar("T")
READ_S = 10.0
NAME = frozenset(string.ascii_letters + string.digits + "-.:_")
"""Characters of names of objects."""
MOST = 500
"""Objects of a list that are read for names."""


class Sources(NamedTuple):
    client: ApiClient
    bus: Bus
    """Bus of the first node, or of the root itself."""
    layout: Layout
    """Layout of the plane."""

    @property
    def node_layout(self) -> Layout:
        """Layout of the node whose bus this is."""
        run = self.bus.options.run_dir
        return self.layout if run == self.layout.run else self.layout.node(run.parent.name)

    @property
    def asking(self) -> Asking:
        return Asking(self.bus, self.node_layout)


class Reader:
    """Reads sources one of which may fail: the others are read all the same."""

    def __init__(self) -> None:
        self.unread: list[str] = []

    async def read(self, name: str, awaitable: Awaitable[T], default: T) -> T:
        try:
            return await awaitable
        except (NodeplaneError, OSError) as error:
            self.unread.append(f"{name} could not be read: {error}")
            return default


@asynccontextmanager
async def connected(where: Layout) -> AsyncIterator[Sources]:
    """Connect to the plane below a root. Raises NotRunning, NodeplaneError."""
    running(where)  # or raises NotRunning
    plane = layout(str(where.plane), str(where.kubelet) if where.plane == where.root else "")
    client, bus = ApiClient(_options(plane)), Bus(BusOptions(name="", run_dir=where.run))
    try:
        await client.start()
        await bus.start()
        yield Sources(client, bus, plane)
    finally:
        try:
            await bus.close()
        finally:
            await client.close()


def _options(plane: Layout) -> ClientOptions:
    cert, key = plane.client_cert("admin")
    return ClientOptions(
        server=load_settings(plane.settings).api_url, ca=plane.ca_cert, cert=cert, key=key, timeout=READ_S
    )


@asynccontextmanager
async def node_bus(sources: Sources, node: str) -> AsyncIterator[Sources]:
    """Yield sources with the bus of the plane's further node of this name; those given if there is none."""
    further = sources.layout.node(node) if node and "/" not in node else sources.layout
    if further == sources.layout or not further.run.is_dir():
        yield sources
        return
    bus = Bus(BusOptions(name="", run_dir=further.run))
    await bus.start()
    try:
        yield sources._replace(bus=bus)
    finally:
        await bus.close()


async def get(client: ApiClient, resource: Resource, name: str, namespace: str = "") -> Object | None:
    """Return an object; None if there is none. Raises ApiError, ApiAway."""
    if not set(name + namespace) <= NAME:
        return None  # no object is called so, and another path could be meant
    try:
        return await client.get(resource, name, namespace)
    except ApiError as error:
        if error.code == 404:
            return None
        raise


async def names(client: ApiClient, resource: Resource, namespace: str = "") -> list[str]:
    """Return the first names of a kind. Raises ApiError, ApiAway."""
    found = await client.list(resource, namespace, query={"limit": str(MOST)})
    return [name_of(each) for each in found.get("items") or ()]


def unknown(what: str, name: str, known: Iterable[str], lists: str) -> Usage:
    """Return the error for a target that nobody knows, with the nearest name."""
    near = difflib.get_close_matches(name.rpartition("/")[2], {each.rpartition("/")[2]: None for each in known}, n=1)
    whole = next((each for each in known if near and each.rpartition("/")[2] == near[0]), "")
    hint = f"did you mean {whole}? " if whole else ""
    return Usage(f"no {what} is called {name!r}; {hint}`{lists}` lists them")
