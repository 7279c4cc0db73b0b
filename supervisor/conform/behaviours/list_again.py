"""ListAndWatch may be called again: by another connection, and after the kubelet has hung up."""

from supervisor.conform.peer import PluginPeer
from supervisor.conform.sources import MANAGER
from supervisor.conform.verdict import Failed

PHASE = "calls"
RULE = "Each registration opens a new ListAndWatch, possibly before the last one has ended; each gets the whole list."
SOURCE = MANAGER
ADVICE = (
    "Keep no state of one call beyond it, send the whole list at the begin of each, serve several at once, and do not"
    " exit when one ends."
)


async def check(plugin: PluginPeer) -> None:
    """Open a second one beside the first, hang up, and open a third."""
    for number in ("second", "third"):
        another = plugin.another()
        try:
            listed = [device.ID for device in (await another.first_list()).devices]
        except Failed as error:
            raise Failed(f"{number} call: {error}") from None
        finally:
            await another.close()
        if sorted(listed) != sorted(plugin.ids):
            raise Failed(
                f"the {number} call lists {len(listed)} devices, other ones than the {len(plugin.ids)} of the first"
            )
