"""Sessions of aiohttp that follow no redirect, not even in a websocket's handshake, which has no option for it."""

from types import SimpleNamespace
from typing import ClassVar

import aiohttp

from protocols.errors import NodeplaneError


class RedirectRefused(NodeplaneError, aiohttp.ClientError):
    """Raised when a server answers with a redirect: it would choose whom its caller talks to next, and how."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "UNAVAILABLE"


def no_redirects() -> aiohttp.TraceConfig:
    """Return what a session is made with so that each redirect raises RedirectRefused before it is followed."""
    config = aiohttp.TraceConfig()
    config.on_request_redirect.append(_refuse)
    return config


async def _refuse(
    session: aiohttp.ClientSession, context: SimpleNamespace, redirect: aiohttp.TraceRequestRedirectParams
) -> None:
    redirect.response.close()
    raise RedirectRefused(f"it answers {redirect.response.status}, and redirects are forbidden")
