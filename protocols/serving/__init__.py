"""HTTP listener for untrusted networks: bounds open connections and the cost of unauthenticated clients."""

from protocols.serving.connection import BoundedConnection, BoundedServer, Detached, mark_authenticated
from protocols.serving.listener import Listener, ListenerOptions
from protocols.serving.unauthenticated import Limits, UnauthenticatedConnections

__all__ = [
    "BoundedConnection",
    "BoundedServer",
    "Detached",
    "Limits",
    "Listener",
    "ListenerOptions",
    "UnauthenticatedConnections",
    "mark_authenticated",
]
