"""Allocate answers for each of several containers of one call."""

from supervisor.conform.peer import PluginPeer
from supervisor.conform.sources import API
from supervisor.conform.verdict import Failed

PHASE = "calls"
RULE = "Allocate may hold several container requests; the answers have their number and order."
SOURCE = API
ADVICE = "Loop over container_requests; do not read the first one only."


async def check(plugin: PluginPeer) -> None:
    """Ask for two devices in two containers, and compare with single calls."""
    first, second = plugin.healthy(2)[:2]
    answers = await plugin.allocate([first], [second])
    if len(answers) != 2:
        raise Failed(f"2 containers were asked for, {len(answers)} were answered")
    singles = [await plugin.repeatable(first), await plugin.repeatable(second)]
    if None not in singles and answers != singles:
        raise Failed(f"the answers for {first} and {second} in one call are not those of two calls")
