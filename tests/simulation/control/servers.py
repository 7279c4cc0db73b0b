"""API servers with their real HTTP handlers, and clients with certificates, over simulated TCP without TLS."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from actors.apiserver import actor as apiserver_actor
from actors.apiserver.api.request import workers
from actors.apiserver.http.routing import stalled
from actors.apiserver.http.routing.server import Server
from actors.apiserver.watch import bookmarks, connection
from actors.store.file import rows
from protocols.kinds.services import network
from protocols.kubeclient import client as kubeclient
from protocols.kubeclient.client import ClientOptions
from protocols.messages.objects import HISTORY_REVISIONS
from protocols.process.settings import Settings
from tests.simulation.world.identity import Credentials
from tests.simulation.world.isolation import kept, nothing
from tests.simulation.world.patching import patch

if TYPE_CHECKING:
    from tests.simulation.world.world import World

SUBJECTS = {
    "admin": ("admin", "system:masters"),
    "scheduler": ("system:kube-scheduler", ""),
    "controllers": ("system:kube-controller-manager", ""),
}
"""Name and organization by the stem of the certificate's file."""
NODE_CLIENTS = frozenset({"podworker", "health"})
"""Stems of certificates with the identity of the node, which has its root's name."""


def install_servers(world: "World", settings: Settings) -> None:
    """Take TLS and the thread that watches the loop out of API servers, and declare their state of the process."""
    patch(Server, "tls", lambda server: None)
    patch(stalled.LoopMonitor, "start", lambda monitor: None)
    patch(stalled.LoopMonitor, "close", lambda monitor: None)
    patch(apiserver_actor, "prepare_process", nothing)
    patch(kubeclient, "_tls", _credentials)
    _draw(world)
    isolation, services = world.isolation, network.SERVICES.strategy
    isolation.add(workers, "_of", nothing)
    isolation.add(rows, "_logged", set)
    isolation.add(services, "ranges", kept(getattr(services, "ranges")))  # noqa: B009  # of a subclass
    isolation.add(services, "services", kept(tuple))
    layout = settings.layout
    layout.pki.mkdir(parents=True, exist_ok=True)
    layout.logs.mkdir(parents=True, exist_ok=True)
    layout.ca_cert.write_text("no certificate\n")


def _draw(world: "World") -> None:
    """Draw the limits of watches, and by how much one server is behind the others."""
    patch(bookmarks, "HISTORY_REVISIONS", int(world.draw("bookmark_history", 8, 80, HISTORY_REVISIONS)))
    patch(bookmarks, "TURN", int(world.draw("bookmark_turn", 1, bookmarks.TURN)))
    patch(connection, "CONGESTED_BYTES", int(world.draw("congested", 512, 8192, connection.CONGESTED_BYTES)))
    world.bus.lag["apiserver-1"] = world.draw("replica_lag_s", 0.05, 0.05, 0.0)


_made: dict[tuple[str, str], Credentials] = {}


def _credentials(options: ClientOptions) -> Credentials:
    assert options.cert is not None
    stem, node = options.cert.stem, options.cert.parents[1].name
    subject = (f"system:node:{node}", "system:nodes") if stem in NODE_CLIENTS else SUBJECTS[stem]
    if subject not in _made:
        _made[subject] = Credentials(*subject)
    return _made[subject]


def client_options(settings: Settings, name: str) -> ClientOptions:
    """Return the options of a client of that certificate."""
    pki: Path = settings.layout.pki
    paths: dict[str, Any] = {"ca": settings.layout.ca_cert, "cert": pki / f"{name}.crt", "key": pki / f"{name}.key"}
    return ClientOptions(server=settings.api_url, **paths)
