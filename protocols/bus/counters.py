"""What a bus counts, and a garbage log that says each peer once."""

import logging
from collections import OrderedDict

import msgspec

log = logging.getLogger("bus")
PEERS = 256


class Counters(msgspec.Struct):
    garbage: int = 0
    """Frames and bodies that did not decode."""
    unsent: int = 0
    """Answers and casts that found no reader."""
    late: int = 0
    """Requests dropped because their deadline had passed."""
    refused: int = 0
    """Requests refused because too many ran."""


class Garbage:
    """Counts what does not decode and logs the first of each peer, for a bounded number of peers."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._said: OrderedDict[str, None] = OrderedDict()

    def note(self, peer: str, why: BaseException) -> None:
        self._counters.garbage += 1
        if peer in self._said:
            return
        self._said[peer] = None
        if len(self._said) > PEERS:
            self._said.popitem(last=False)
        log.warning("dropped a frame from %s: %s (further ones are only counted)", peer, why)
