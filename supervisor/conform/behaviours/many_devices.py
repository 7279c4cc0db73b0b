"""A list of 1,000 devices and an Allocate of all of them work."""

from supervisor.conform.peer import PluginPeer
from supervisor.conform.sources import API, MANAGER
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "calls"
RULE = "Nothing limits the number of devices but the 4 MiB of a message."
SOURCE = f"{API}; {MANAGER}"
ADVICE = "Keep ids short, and time and size of an answer proportional to the number of devices."
MANY = 1000
MAX_RESPONSE = 1 << 20


async def check(plugin: PluginPeer) -> None:
    """Allocate all of many devices."""
    if len(plugin.ids) < MANY:
        raise NotApplicable(f"the plugin lists {len(plugin.ids)} devices; start it with {MANY:,} to check this")
    answers = await plugin.allocate_all()
    if (size := sum(answer.ByteSize() for answer in answers)) > MAX_RESPONSE:
        raise Failed(f"the answer has {size} bytes; it becomes part of each checkpoint of the node")
