"""The trace without what another run of the seed may have otherwise, and which decides nothing."""

from typing import TYPE_CHECKING
from zlib import adler32

if TYPE_CHECKING:
    from tests.simulation.world.world import World


def hide_chance(world: "World") -> None:
    """Leave out the name of the run's directory, always of one length, and the order of maps in protobuf messages.

    That order follows an address of the library: of a message its length and the sum of its bytes count.
    """
    trace, root = world.trace, str(world.root)
    raw, message, happened = root.encode(), trace.message, trace.happened

    def seen(now: float, sender: int, receiver: int, data: bytes) -> None:
        plain = data.replace(raw, b"") if raw in data else data
        message(now, sender, receiver, b"%d %d" % (len(plain), adler32(plain) & 0xFFFF))  # the sum in its lower half

    trace.message = seen  # type: ignore[method-assign]
    trace.happened = lambda now, process, text: happened(now, process, text.replace(root, "ROOT"))  # type: ignore[method-assign]
