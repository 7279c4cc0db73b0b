"""The members of a cluster, of which one is used until it fails: then the next one is.

Each has one channel, over HTTP/2 or over the private endpoint.
"""

import asyncio
import random
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from protocols.etcd.errors import BadEndpoint, EtcdError, NotSent, Unavailable
from protocols.etcd.options import PRIVATE, SOCKET, EtcdOptions
from protocols.etcd.transport.connection_channel import ConnectionChannel
from protocols.etcd.transport.http2_connection import http2_channel
from protocols.etcd.transport.private_connection import private_channel
from protocols.process.tls import Renewed, client_context

PATIENCE = 1.0
"""Seconds a member may take to let us connect before the next one is asked."""
PAUSE = 0.05
"""Seconds between two rounds when no member lets us connect; each further one waits so much longer."""
LONGEST_PAUSE = 0.5


Contexts = Callable[[], ssl.SSLContext]
"""Makes the TLS context of the next connection."""


class Members:
    """Members in turn: calls go to `current`.

    Callers report its failure with `blame`, which selects the next member. The first one is random, so that processes
    spread over the cluster.
    """

    def __init__(self, options: EtcdOptions) -> None:
        if not options.endpoints:
            raise BadEndpoint("no endpoint of the store is given; set store_endpoints")
        self._options = options
        self.count = len(options.endpoints)
        self.current = random.randrange(self.count)
        self.channels: list[ConnectionChannel] = []

    @property
    def several(self) -> bool:
        return self.count > 1

    def start(self) -> None:
        """Connect in the background. Raises BadEndpoint."""
        tls = contexts_of(self._options)
        self.channels = [open_channel(endpoint, self._options, tls) for endpoint in self._options.endpoints]

    async def close(self) -> None:
        channels, self.channels = self.channels, []
        for channel in channels:
            await channel.close(grace=None)

    @property
    def at_hand(self) -> int | None:
        """The member in use, if it can be talked to at once. The only one waits for its connection by itself."""
        return self.current if self.count == 1 or self.channels[self.current].open else None

    def blame(self, member: int) -> None:
        if member == self.current:
            self.current = (member + 1) % self.count

    def blamed(self, member: int, error: EtcdError) -> EtcdError:
        """Return the error; one of a member that is away or has no leader counts against the member."""
        if isinstance(error, Unavailable):
            self.blame(member)
        return error

    async def connected(self, timeout: float) -> int:
        """A member that can be talked to now.

        Raises NotSent when there is none in time. The only member is given at once: a call waits for it by itself.
        """
        if not self.several:
            return 0
        loop = asyncio.get_running_loop()
        deadline, tried = loop.time() + timeout, 0
        while True:
            member = self.current
            if await self.channels[member].stands(min(PATIENCE, deadline - loop.time())):
                return member
            self.blame(member)
            tried += 1
            if loop.time() >= deadline:
                raise NotSent(self._nobody())
            if tried % self.count == 0:
                await asyncio.sleep(min(PAUSE * tried / self.count, LONGEST_PAUSE))

    def _nobody(self) -> str:
        mend = "see that they run, and that CA, certificate and key are for them"
        if self._options.ca is None:
            mend = "see that they run, and give a CA if they speak TLS"
        return f"no member lets us connect ({', '.join(self._options.endpoints)}); {mend}"


class Method:
    """A call of the etcd API, to any member."""

    def __init__(self, members: Members, path: str, answer: type[Message], stream: bool = False) -> None:
        kinds = [channel.stream_stream if stream else channel.unary_unary for channel in members.channels]
        self.members = members
        self._stubs: list[Callable[..., Any]] = [
            kind(f"/etcdserverpb.{path}", request_serializer=_serialize, response_deserializer=answer.FromString)
            for kind in kinds
        ]

    def stub(self, member: int) -> Callable[..., Any]:
        return self._stubs[member]


def _serialize(message: Message) -> bytes:
    return message.SerializeToString()


def open_channel(endpoint: str, options: EtcdOptions, tls: Contexts | None) -> ConnectionChannel:
    """Return a channel that reconnects within half a second. Raises BadEndpoint."""
    if endpoint.startswith(PRIVATE):
        return private_channel(Path(endpoint.removeprefix(PRIVATE)))
    _check(endpoint)
    return http2_channel(endpoint, tls, options.max_message)


def contexts_of(options: EtcdOptions) -> Contexts | None:
    """Return the TLS contexts of the options; None without TLS. Raises BadEndpoint."""
    if options.ca is None:
        return None
    return Renewed((options.ca, options.cert, options.key), partial(context_of, options)).now


def context_of(options: EtcdOptions) -> ssl.SSLContext:
    """Raises BadEndpoint."""
    try:
        context = client_context(options.ca)
        if options.cert is not None and options.key is not None:
            context.load_cert_chain(options.cert, options.key)
    except (OSError, ssl.SSLError) as error:
        raise BadEndpoint(f"cannot use {options.ca} with {options.cert}: {error.strerror or error}") from None
    context.set_alpn_protocols(["h2"])
    return context


def _check(endpoint: str) -> None:
    """Check an endpoint's form; each connection resolves its name. Raises BadEndpoint."""
    if endpoint.startswith(SOCKET):
        return
    host, _, port = endpoint.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and len(port) < 6):
        raise BadEndpoint(f"store endpoint {endpoint!r} is not host:port or unix:PATH")
