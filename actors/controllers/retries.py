"""How long a piece of work that did not end waits before it is looked at again. Pure."""

FIRST_S, MOST_S = 0.5, 10.0


class Retries:
    """Counts tries by name; bounded by the names given, which are forgotten once their work is done."""

    def __init__(self) -> None:
        self._tries: dict[str, int] = {}

    def failed(self, name: str) -> float:
        """Seconds to wait: 0.5, 1, 2, 4, 8, 10, 10 ..."""
        tries = self._tries.get(name, 0)
        self._tries[name] = tries + 1
        return min(MOST_S, FIRST_S * 2.0 ** min(tries, 10))

    def done(self, name: str) -> None:
        self._tries.pop(name, None)
