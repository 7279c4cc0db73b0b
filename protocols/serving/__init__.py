"""HTTP servers that strangers reach: how many connections may be open, and what one costs until it proves who it is."""

from protocols.serving.connection import BoundedConnection, BoundedServer, mark_authenticated
from protocols.serving.listener import CannotBind, Listener, ListenerOptions
from protocols.serving.unauthenticated import Limits, UnauthenticatedConnections

__all__ = [
    "BoundedConnection",
    "BoundedServer",
    "CannotBind",
    "Limits",
    "Listener",
    "ListenerOptions",
    "UnauthenticatedConnections",
    "mark_authenticated",
]
