"""HTTP listener for untrusted networks: bounds open connections and the cost of unauthenticated clients."""

from protocols.serving.connection import BoundedConnection, BoundedServer, Detached, mark_authenticated
from protocols.serving.listener import Listener, ListenerOptions
from protocols.serving.unauthenticated import UnauthenticatedConnections, UnauthenticatedLimits

__all__ = [
    "BoundedConnection",
    "BoundedServer",
    "Detached",
    "Listener",
    "ListenerOptions",
    "UnauthenticatedConnections",
    "UnauthenticatedLimits",
    "mark_authenticated",
]
