"""HTTP listener for untrusted networks: bounds open connections and the cost of unauthenticated clients."""

from protocols.serving.connection import BoundedConnection, BoundedServer, Detached, mark_authenticated
from protocols.serving.listener import CannotBind, Listener, ListenerOptions
from protocols.serving.unauthenticated import Limits, UnauthenticatedConnections

__all__ = [
    "BoundedConnection",
    "BoundedServer",
    "CannotBind",
    "Detached",
    "Limits",
    "Listener",
    "ListenerOptions",
    "UnauthenticatedConnections",
    "mark_authenticated",
]
