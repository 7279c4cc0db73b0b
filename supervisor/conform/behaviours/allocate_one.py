"""Allocate answers for one container, while ListAndWatch is open."""

from supervisor.conform.peer import PluginPeer
from supervisor.conform.sources import API, ENDPOINT
from supervisor.conform.verdict import Failed

PHASE, ORDER = "calls", 0
RULE = "The answer to Allocate has a container response for each container request."
SOURCE = f"{API}; {ENDPOINT}"
ADVICE = (
    "Append a ContainerAllocateResponse for each request, and serve calls beside the open ListAndWatch: a"
    " server with one thread cannot."
)


async def check(plugin: PluginPeer) -> None:
    """Allocate each of the first devices by itself."""
    for id in plugin.healthy()[:4]:
        if (count := len(await plugin.allocate([id]))) != 1:
            raise Failed(f"one container was asked for {id}, {count} were answered")
