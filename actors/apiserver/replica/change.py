"""One change of one object: what it was, what it is, and its encoded forms, made once and shared."""

from actors.apiserver.api.objects.stored import Stored


class Change:
    """`before` None = created, `after` None = deleted."""

    __slots__ = ("after", "at", "before", "encoded", "key", "rv", "size")

    def __init__(self, key: str, rv: int, before: Stored | None, after: Stored | None, at: float = 0.0) -> None:
        self.key = key
        self.rv = rv
        self.before = before
        self.after = after
        self.at = at
        self.size = (len(before.raw) if before else 0) + (len(after.raw) if after else 0)
        """Bytes of the object before and after."""
        self.encoded: dict[object, bytes] = {}
        """Bytes by (event type, form): one encoding serves every watcher that wants it."""
