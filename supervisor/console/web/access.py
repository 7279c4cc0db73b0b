"""Decide who may use the console's server. Pure.

A one-time token in the printed URL becomes a session cookie. Requests need a Host of this server, which stops DNS
rebinding; the WebSocket needs an Origin of this server as well, which stops pages of other sites.
"""

import enum
import hmac
import secrets
from collections.abc import Mapping

TOKEN_BYTES = 32
NAMES = ("127.0.0.1", "localhost")


class AccessVerdict(enum.Enum):
    """Answers to a request; each is an HTTP status."""

    ALLOWED = 200
    WELCOME = 303
    """The token was right and is spent now: set the cookie and go to the page."""
    UNKNOWN = 401
    FOREIGN = 403
    """Host or Origin are of another site."""


class ConsoleAccess:
    """State of one server: its token until it is used, and the cookie of its session."""

    def __init__(self, port: int) -> None:
        self._hosts = frozenset(f"{name}:{port}" for name in NAMES)
        self.token = secrets.token_urlsafe(TOKEN_BYTES)
        self._session = ""
        self.cookie = f"nodeplane_console_{port}"
        """Name of the cookie; cookies are shared by all ports of a host."""

    @property
    def session(self) -> str:
        return self._session

    def page(self, host: str, token: str | None, cookies: Mapping[str, str]) -> AccessVerdict:
        """Judge a request for a page or a file."""
        if host.lower() not in self._hosts:
            return AccessVerdict.FOREIGN
        if token is not None:
            return self._spend(token)
        return AccessVerdict.ALLOWED if self._knows(cookies) else AccessVerdict.UNKNOWN

    def socket(self, host: str, origin: str, cookies: Mapping[str, str]) -> AccessVerdict:
        """Judge a WebSocket."""
        if host.lower() not in self._hosts or origin.lower() != f"http://{host.lower()}":
            return AccessVerdict.FOREIGN
        return AccessVerdict.ALLOWED if self._knows(cookies) else AccessVerdict.UNKNOWN

    def _spend(self, token: str) -> AccessVerdict:
        if self._session or not _same(token, self.token):
            return AccessVerdict.UNKNOWN
        self._session = secrets.token_urlsafe(TOKEN_BYTES)
        return AccessVerdict.WELCOME

    def _knows(self, cookies: Mapping[str, str]) -> bool:
        return bool(self._session) and _same(cookies.get(self.cookie, ""), self._session)


def _same(left: str, right: str) -> bool:
    return hmac.compare_digest(left.encode(errors="replace"), right.encode())
