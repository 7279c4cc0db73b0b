"""Call webhooks over HTTPS: a deadline for each call, bounded answers, no redirects, no credentials.

The client is made with the first call. A service is reached through the ready endpoints of its EndpointSlices, since
addresses of services are not routed; its certificate must be for NAME.NAMESPACE.svc, as upstream requires.
"""

import asyncio
import functools
import random
import ssl
from collections.abc import Callable, Iterable

import msgspec
from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector

from actors.apiserver.reads.endpoints import Slices, ready_endpoints
from actors.apiserver.writes.admission.policies.webhook import Service, Webhook, WebhookFailed
from protocols.kube.meta import Object
from protocols.kube.objects import items, text
from protocols.kube.request_uri import uri_host
from protocols.process.tls import client_context

ANSWER_BYTES = 3 * 1024 * 1024
CONNECTIONS, PER_HOST = 64, 16
"""Open connections of a process: calls beyond them wait within their deadline."""
CONTEXTS = 64

FindService = Callable[[str], Object | None]
"""Return a service by `namespace/name`."""


class Destination(msgspec.Struct, frozen=True):
    """Address of a webhook, with the name that its certificate must have."""

    url: str
    server_name: str
    """Name in the server's certificate; empty = the host of the URL."""


def destination_of(service: Service, stored: Object | None, slices: Iterable[Object]) -> Destination:
    """Return the URL of one ready endpoint of a service. Raises WebhookFailed."""
    if stored is None:
        raise WebhookFailed(f'service "{service.name}" not found')
    port = next((declared for declared in items(stored, "spec", "ports") if declared.get("port") == service.port), None)
    if port is None:
        raise WebhookFailed(f'no service port {service.port} found for service "{service.name}"')
    targets = list(ready_endpoints(slices, service.name, text(port, "name")))
    if not targets:
        raise WebhookFailed(f'no endpoints available for service "{service.name}"')
    address, number, _ = random.choice(targets)
    return Destination(f"https://{uri_host(address)}:{number}{service.path or '/'}", service.host)


@functools.lru_cache(maxsize=CONTEXTS)
def _context(ca: bytes) -> ssl.SSLContext:
    """Return the context that trusts these CAs. Raises ValueError, ssl.SSLError."""
    return client_context(ca or None)


def _asked(webhook: Webhook) -> str:
    """Return the request as errors show it: to the service, not to one of its endpoints."""
    service = webhook.service
    url = webhook.url if service is None else f"https://{service.host}:{service.port}{service.path or '/'}"
    return f'Post "{url}?timeout={webhook.seconds}s"'


class Caller:
    """HTTP client of all webhooks."""

    def __init__(self, service: FindService, slices: Slices) -> None:
        self._service, self._slices = service, slices
        self._session: ClientSession | None = None

    async def call(self, webhook: Webhook, review: Object) -> bytes:
        """Return the body of the answer. Raises WebhookFailed."""
        try:
            context = _context(webhook.ca)
        except (ValueError, ssl.SSLError) as error:
            raise WebhookFailed(f"could not get REST client: invalid caBundle: {error}") from None
        try:
            async with asyncio.timeout(webhook.seconds):
                return await self._post(webhook, self._destination(webhook), context, msgspec.json.encode(review))
        except TimeoutError:
            fault = "context deadline exceeded"
        except (WebhookFailed, ClientError, OSError, ssl.SSLError, ValueError) as error:
            fault = str(error) or type(error).__name__
        raise WebhookFailed(f"failed to call webhook: {_asked(webhook)}: {fault}")

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _destination(self, webhook: Webhook) -> Destination:
        service = webhook.service
        if service is None:
            return Destination(webhook.url, "")
        stored = self._service(f"{service.namespace}/{service.name}")
        return destination_of(service, stored, self._slices(service.namespace))

    async def _post(self, webhook: Webhook, target: Destination, context: ssl.SSLContext, body: bytes) -> bytes:
        answer = await self._client().post(
            target.url,
            params={"timeout": f"{webhook.seconds}s"},
            data=body,
            headers={"Content-Type": "application/json", "Accept": "application/json"},
            ssl=context,
            server_hostname=target.server_name or None,
            allow_redirects=False,
        )
        async with answer:
            if answer.status != 200:
                raise WebhookFailed(f"the server answered with status {answer.status}")
            raw = await answer.content.read(ANSWER_BYTES)
            while raw and not answer.content.at_eof():
                more = await answer.content.read(ANSWER_BYTES)
                raw += more
                if len(raw) > ANSWER_BYTES:
                    raise WebhookFailed(f"the answer has more than {ANSWER_BYTES} bytes")
            return raw

    def _client(self) -> ClientSession:
        if self._session is None:
            connector = TCPConnector(limit=CONNECTIONS, limit_per_host=PER_HOST)
            self._session = ClientSession(connector=connector, timeout=ClientTimeout(total=None), auto_decompress=False)
        return self._session
