"""HTTP servers that strangers reach: how many connections may be open, and what one costs until it proves who it is."""

from protocols.serving.guest import Guest, GuestServer, prove
from protocols.serving.listener import CannotBind, Listener, ListenerOptions
from protocols.serving.lobby import Limits, Lobby

__all__ = ["CannotBind", "Guest", "GuestServer", "Limits", "Listener", "ListenerOptions", "Lobby", "prove"]
