"""How often a full relist may be asked for: nonsense from the runtime must not become a busy loop. Pure."""

from protocols.pace import Bucket

BURST = 5.0
PER_S = 1.0


class Pace(Bucket):
    """A bucket of BURST relists that fills by PER_S."""

    def __init__(self) -> None:
        super().__init__(PER_S, BURST, BURST, 0.0)
