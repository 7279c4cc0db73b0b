"""The members of a cluster, of which one is used until it fails: then the next one is."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from protocols.etcd.channel import contexts_of, open_channel
from protocols.etcd.errors import BadEndpoint, EtcdError, NotSent, Unavailable
from protocols.etcd.options import EtcdOptions
from protocols.etcd.transport.connection_channel import ConnectionChannel

PATIENCE = 1.0
"""Seconds a member may take to let us connect before the next one is asked."""
PAUSE = 0.05
"""Seconds between two rounds when no member lets us connect; each further one waits so much longer."""
LONGEST_PAUSE = 0.5


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
