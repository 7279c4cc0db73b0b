"""The trace without what another run of the seed may have otherwise, and which decides nothing."""

from typing import TYPE_CHECKING
from zlib import adler32

if TYPE_CHECKING:
    from tests.simulation.world.world import World


def hide_chance(world: "World") -> None:
    """Leave out the order of maps in protobuf messages, which follows an address of the library.

    Of a message its length and the sum of its bytes count.
    """
    world.trace.sum = lambda data: adler32(data) & 0xFFFF  # the sum in its lower half
