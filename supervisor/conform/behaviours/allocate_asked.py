"""Allocate answers for the device that was asked for, not for one of its own choice."""

from collections.abc import Iterator

from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from supervisor.conform.peer import SAMPLE, PluginPeer
from supervisor.conform.sources import API, MANAGER
from supervisor.conform.verdict import Failed

PHASE = "calls"
RULE = "The kubelet chooses the devices: a container gets those of devices_ids, and another container never gets them."
SOURCE = f"{API}; {MANAGER}"
ADVICE = "Look the ids of the request up, and begin each answer empty; to choose devices, offer GetPreferredAllocation."
SHORTEST = 4
"""Characters of an id that is not taken for a word by accident."""


async def check(plugin: PluginPeer) -> None:
    """Compare answers for one device with the answer for another, and look for ids of others in them."""
    ids = plugin.healthy(2)[:SAMPLE]
    other = await plugin.allocate(ids[1:2])
    first = await plugin.allocate(ids[:1])
    for _ in ids:
        again = await plugin.allocate(ids[:1])
        if again != first and again == other:
            raise Failed(f"{ids[0]} was given {ids[1]} once")
    for id in ids:
        named = {word for answer in await plugin.allocate([id]) for word in words(answer)}
        others = {each for each in plugin.ids if len(each) >= SHORTEST} & named - {id}
        if others:
            raise Failed(f"the answer for {id} names {min(others)} {'as well' if id in named else 'instead'}")


def words(answer: pb.ContainerAllocateResponse) -> Iterator[str]:
    """Yield the texts of an answer that may be ids."""
    for value in (*answer.envs.values(), *answer.annotations.values()):
        yield from value.replace(",", " ").split()
    for device in answer.cdi_devices:
        yield device.name.rpartition("=")[2]
