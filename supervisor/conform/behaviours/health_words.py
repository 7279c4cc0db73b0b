"""The health of a device is the word Healthy or Unhealthy."""

from protocols.messages.devices import HEALTHY, UNHEALTHY
from supervisor.conform.peer import PluginPeer
from supervisor.conform.scripts import several
from supervisor.conform.sources import CONSTANTS, MANAGER
from supervisor.conform.verdict import Failed

PHASE = "list"
RULE = "health is exactly Healthy or Unhealthy; the kubelet takes every other text, such as healthy, for Unhealthy."
SOURCE = f"{CONSTANTS}; {MANAGER}"
ADVICE = "Use the constants of the API: with another word the device is never given out, and nothing says why."
WORDS = (HEALTHY, UNHEALTHY)


async def check(plugin: PluginPeer) -> None:
    """Look at the newest list."""
    faults = [f"{each.ID} has the health {each.health!r}" for each in plugin.devices if each.health not in WORDS]
    if faults:
        raise Failed(several(faults))
