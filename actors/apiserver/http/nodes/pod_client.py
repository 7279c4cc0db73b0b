"""Connections of pods/proxy and services/proxy: to a pod's own port, without any credentials of ours.

A pod's certificate is not verified, as upstream: nothing says what it should name. No redirect is followed.
"""

import asyncio

import aiohttp
from yarl import URL

from actors.apiserver.api.errors import NEVER_AGAIN, ServiceUnavailable
from actors.apiserver.http.nodes.backends import Backend
from actors.apiserver.http.nodes.client import CONNECT_S, HEADERS_S, Forwarded, ForwardingClient

_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)


class PodClient(ForwardingClient):
    """Calls to pods and endpoints of services."""

    async def forward(self, method: str, where: Backend, path: str, sent: Forwarded) -> aiohttp.ClientResponse:
        """Return the response to a client's request, with its body unread. Raises ServiceUnavailable."""
        url = URL.build(
            scheme=where.scheme, host=where.host, port=where.port, path=path, query_string=sent.query, encoded=True
        )
        try:
            async with asyncio.timeout(HEADERS_S):
                return await self._opened().request(
                    method,
                    url,
                    headers=sent.headers,
                    data=sent.body,
                    allow_redirects=False,
                    ssl=False,
                    timeout=_TIMEOUT,
                )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            why = " ".join(str(error).split()) or type(error).__name__
            raise ServiceUnavailable(f"error trying to reach service: {why}", NEVER_AGAIN) from None
