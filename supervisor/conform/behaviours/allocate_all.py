"""Allocate gives all devices to one container."""

from supervisor.conform.peer import PluginPeer
from supervisor.conform.sources import API
from supervisor.conform.verdict import Failed

PHASE = "calls"
RULE = "A container may ask for any number of devices up to those that are free."
SOURCE = API
ADVICE = "Answer for all of devices_ids in one container response."


async def check(plugin: PluginPeer) -> None:
    """Ask for all healthy devices."""
    ids = plugin.healthy(2)
    answers = await plugin.allocate_all()
    if len(answers) != 1:
        raise Failed(f"one container was asked for {len(ids)} devices, {len(answers)} were answered")
    first, last = await plugin.repeatable(ids[0]), await plugin.repeatable(ids[-1])
    if first != last and answers[0] in (first, last):
        raise Failed(f"the answer for {len(ids)} devices is that for {ids[0 if answers[0] == first else -1]} alone")
