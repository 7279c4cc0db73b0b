"""What a hub tells of its watches, for the metrics. This one forgets it all."""


class Meter:
    def sent(self, watches: int, size: int) -> None:
        """An event of `size` bytes was queued for so many watches."""

    def replayed(self, events: int, size: int) -> None:
        """Events written at the beginning of a watch."""

    def slow(self) -> None:
        """A watch was ended because its client does not keep up."""

    def expired(self) -> None:
        """A watch was refused: its version is older than the window."""

    def last_bookmark(self, told: bool) -> None:
        """A leaving process had a bookmark for a watch; `told`: it was written, not left behind a reader that lags."""
