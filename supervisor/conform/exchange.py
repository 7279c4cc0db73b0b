"""Calls between what is played and the program, decoded and as bytes, in bounded size.

Values of environment variables are shown: the program is the user's own, and the bytes hold them, too.
"""

import msgspec

from protocols.messages.calls import CallRecord
from protocols.process.files import encodable
from supervisor.calls import sent

MAX_BYTES = 256
"""Bytes shown of one message."""
MAX_EXCHANGES = 40
"""Exchanges retained of one behaviour: the first half of them and the last."""
MAX_ERROR = 512


class Shown(msgspec.Struct, frozen=True):
    """The first bytes of a message."""

    size: int
    first: bytes

    @classmethod
    def of(cls, raw: bytes) -> "Shown":
        return cls(len(raw), raw[:MAX_BYTES])

    def text(self, most: int = MAX_BYTES) -> str:
        first = self.first[:most]
        return first.hex(" ") + (f" +{self.size - len(first)} more" if self.size > len(first) else "")


class Exchange(msgspec.Struct, frozen=True):
    """One call or one message of a stream."""

    record: CallRecord
    request: Shown
    reply: Shown


class Sent(sent.Sent):
    """An exchange that has begun."""

    streamed: bool = False
    """It is a message of a stream, which took no time by itself."""

    def done(self) -> Exchange:
        record = self.record()
        shown = msgspec.structs.replace(
            record,
            peer=encodable(self.peer[:MAX_ERROR]),
            seconds=0.0 if self.streamed else record.seconds,
            number=1,  # 0 stands for a call in progress
            error=encodable(" ".join(self.error[:MAX_ERROR].split())),
        )
        return Exchange(shown, Shown.of(self.request), Shown.of(self.reply))


class ExchangeRecorder:
    """The exchanges of one behaviour after another."""

    def __init__(self) -> None:
        self._exchanges: list[Exchange] = []
        self._count = 0
        self.hung: set[tuple[str, str]] = set()
        """Peer and path of calls that were not answered in time: no later script waits for them again."""

    def add(self, exchange: Exchange) -> None:
        """Retain an exchange once, and the newest in place of the middle when there are too many."""
        if exchange in self._exchanges:
            return
        self._count += 1
        if len(self._exchanges) >= MAX_EXCHANGES:
            del self._exchanges[MAX_EXCHANGES // 2]
        self._exchanges.append(exchange)

    def take(self) -> tuple[tuple[Exchange, ...], int]:
        """Return the exchanges since the last call in the order of time, and the number of those left out."""
        exchanges = tuple(sorted(self._exchanges, key=lambda each: each.record.began_ns))
        omitted = self._count - len(exchanges)
        self._exchanges, self._count = [], 0
        return exchanges, omitted
