"""The members of a cluster, of which one is used until it fails: then the next one is."""

import asyncio
import random
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

import grpc
from google.protobuf.message import Message

from protocols.etcd.channel import Credentials, credentials_of, files_of, open_channel
from protocols.etcd.errors import BadEndpoint, Unavailable
from protocols.etcd.options import EtcdOptions
from protocols.tls import Renewed

PATIENCE = 1.0
"""Seconds a member may take to let us connect before the next one is asked."""
PAUSE = 0.05
"""Seconds between two rounds when no member lets us connect."""


class Members:
    """`current` is where calls go. Whoever sees it fail says so by `blame`, which moves on; other clients are not
    disturbed. The first one is chosen by chance, so that processes spread over the cluster."""

    def __init__(self, options: EtcdOptions) -> None:
        if not options.endpoints:
            raise BadEndpoint("no endpoint of the store is given; set store_endpoints")
        self._options = options
        self.count = len(options.endpoints)
        self.current = random.randrange(self.count)
        self.channels: list[grpc.aio.Channel] = []
        self._credentials: Renewed[Credentials | None] | None = None
        self._with: list[Credentials | None] = []
        """Of each channel."""

    @property
    def several(self) -> bool:
        return self.count > 1

    def start(self) -> None:
        """Connects in the background. Raises BadEndpoint."""
        options = self._options
        self._credentials = Renewed(files_of(options), partial(credentials_of, options))
        made = self._credentials.now()
        self._with = [made] * self.count
        self.channels = [open_channel(endpoint, options, made) for endpoint in options.endpoints]

    async def close(self) -> None:
        channels, self.channels = self.channels, []
        for channel in channels:
            await channel.close(grace=None)

    def blame(self, member: int) -> None:
        if member == self.current:
            self.current = (member + 1) % self.count

    @contextmanager
    def blaming(self, member: int) -> Generator[None]:
        """What fails inside because the member is away or has no leader counts against it."""
        try:
            yield
        except Unavailable:
            self.blame(member)
            raise

    async def connected(self, timeout: float) -> int:
        """A member that can be talked to now. Raises Unavailable when there is none in time. The only member is
        given at once: a call waits for it by itself."""
        if not self.several:
            return 0
        loop = asyncio.get_running_loop()
        deadline, tried = loop.time() + timeout, 0
        while True:
            member = self.current
            if await self._stands(member, min(PATIENCE, deadline - loop.time())):
                return member
            self.blame(member)
            tried += 1
            if loop.time() >= deadline:
                raise Unavailable(self._nobody())
            if tried % self.count == 0:
                await asyncio.sleep(PAUSE)

    def _nobody(self) -> str:
        mend = "see that they run, and that CA, certificate and key are for them"
        if self._options.ca is None:
            mend = "see that they run, and give a CA if they speak TLS"
        return f"no member lets us connect ({', '.join(self._options.endpoints)}); {mend}"

    async def _stands(self, member: int, patience: float) -> bool:
        channel = self.channels[member]
        state = channel.get_state(try_to_connect=True)
        if state is grpc.ChannelConnectivity.READY:
            return True
        channel = await self._renewed(member)
        state = channel.get_state(try_to_connect=True)
        try:
            async with asyncio.timeout(patience):
                while state in (grpc.ChannelConnectivity.IDLE, grpc.ChannelConnectivity.CONNECTING):
                    await channel.wait_for_state_change(state)
                    state = channel.get_state(try_to_connect=True)
        except TimeoutError:
            return False
        return state is grpc.ChannelConnectivity.READY

    async def _renewed(self, member: int) -> grpc.aio.Channel:
        """Its channel; a new one if the certificates of the old are no longer those of the files."""
        channel, made = self.channels[member], self._credentials.now() if self._credentials else None
        if self._credentials is not None and made is not self._with[member]:
            self._with[member] = made
            self.channels[member] = open_channel(self._options.endpoints[member], self._options, made)
            await channel.close(grace=None)
        return self.channels[member]


class Method:
    """A call of the etcd API, to any member."""

    def __init__(self, members: Members, path: str, answer: type[Message], stream: bool = False) -> None:
        self.members = members
        self._path, self._answer, self._stream = f"/etcdserverpb.{path}", answer, stream
        self._stubs: dict[int, tuple[grpc.aio.Channel, Callable[..., Any]]] = {}

    def stub(self, member: int) -> Callable[..., Any]:
        channel = self.members.channels[member]
        held = self._stubs.get(member)
        if held is None or held[0] is not channel:
            kind = channel.stream_stream if self._stream else channel.unary_unary
            made = kind(self._path, request_serializer=_serialize, response_deserializer=self._answer.FromString)
            held = self._stubs[member] = channel, made
        return held[1]


def _serialize(message: Message) -> bytes:
    return message.SerializeToString()
