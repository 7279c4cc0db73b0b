"""What a plugin's ListAndWatch says, at our pace: of lists that come faster than they are used the newest counts."""

import asyncio
import time
from collections.abc import AsyncIterator

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from actors.devices.errors import PluginFailed
from actors.devices.plugins.describe import describe
from actors.devices.types import PluginDevice
from protocols.pace import Bucket
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire.device_plugin import LIST_AND_WATCH

HEALTHY = "Healthy"

MOST_DEVICES = 20_000
"""Of one plugin."""
LONGEST_ID = 1024
"""Characters; the API says 63, and no kubelet asks for it."""
MOST_NODES = 1024
BURST, MESSAGES_S = 50, 1000.0
"""Messages that are taken in one go, and how many a second then: a plugin that talks without end costs little."""
PAUSE_S = 0.05
"""How long such a plugin is not listened to then: one rest for many messages is cheaper than a short one each."""


class Lists:
    """One stream. A reader takes bytes off it; only lists that are used are parsed."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        listen: grpc.aio.UnaryStreamMultiCallable[pb.Empty, bytes] = channel.unary_stream(
            LIST_AND_WATCH.path, request_serializer=pb.Empty.SerializeToString, response_deserializer=bytes
        )
        self._call = listen(pb.Empty())
        self._newest: bytes | None = None
        self._news = asyncio.Event()
        self._end: PluginFailed | None = None

    async def read(self) -> AsyncIterator[list[PluginDevice]]:
        """Has no deadline: silence is normal. Raises PluginFailed at the end.

        Half of the time is left to others: what a list costs is waited for before the next."""
        reader = asyncio.create_task(self._reader())
        try:
            while True:
                await self._news.wait()
                began = time.perf_counter()
                if (message := self._take()) is not None:
                    yield devices_of(message)
                await asyncio.sleep(time.perf_counter() - began)
        finally:
            reader.cancel()
            self._call.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    def _take(self) -> bytes | None:
        """The newest list; None when the end comes next. Raises the end."""
        message, self._newest = self._newest, None
        if self._end is None:
            self._news.clear()
        elif message is None:
            raise self._end
        return message

    async def _reader(self) -> None:
        try:
            pace = Bucket(MESSAGES_S, BURST, BURST, time.monotonic())
            async for message in self._call:
                self._newest = message
                self._news.set()
                if pace.wait(time.monotonic()) > 0:
                    await asyncio.sleep(PAUSE_S)
            self._end = PluginFailed("ListAndWatch ended: the plugin closed its stream")
        except grpc.RpcError as error:
            self._end = PluginFailed(f"ListAndWatch ended: {describe(error)}")
        self._news.set()


def devices_of(raw: bytes) -> list[PluginDevice]:
    """Raises PluginFailed for a list that no machine has. Of two devices with one id the last counts."""
    try:
        message = pb.ListAndWatchResponse.FromString(raw)
    except DecodeError:
        raise PluginFailed("ListAndWatch ended: what it sends is no list of devices") from None
    if len(message.devices) > MOST_DEVICES:
        raise PluginFailed(f"it lists {len(message.devices)} devices, {MOST_DEVICES} are the limit")
    longest = max((len(device.ID) for device in message.devices), default=0)
    if longest > LONGEST_ID:
        raise PluginFailed(f"it lists a device whose id has {longest} characters, {LONGEST_ID} are the limit")
    return [_device(device) for device in message.devices if device.ID]


def _device(device: pb.Device) -> PluginDevice:
    """A NUMA node that no kernel has is none."""
    numa = tuple(sorted({node.ID for node in device.topology.nodes if 0 <= node.ID < MOST_NODES}))
    return PluginDevice(id=device.ID, healthy=device.health == HEALTHY, numa=numa)
