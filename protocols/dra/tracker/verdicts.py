"""What was decided about the devices of one slice, a byte for each: an expression is asked once while a device stays as
it is published, by however many patches."""

NO, YES, FAULTY = 1, 2, 3
"""0 = not asked yet. Why one is faulty is asked again when somebody wants to know."""


class Verdicts:
    def __init__(self, size: int) -> None:
        self._size = size
        self._known: dict[str, bytearray] = {}

    def get(self, expression: str, at: int) -> int:
        known = self._known.get(expression)
        return known[at] if known else 0

    def put(self, expression: str, at: int, verdict: int) -> None:
        known = self._known.get(expression)
        if known is None:
            known = self._known[expression] = bytearray(self._size)
        known[at] = verdict

    def drop(self, expression: str) -> None:
        self._known.pop(expression, None)

    def moved(self, origins: list[int]) -> "Verdicts":
        """Of a slice whose device at each place is the one that was at `origins` (-1 = none was)."""
        made = Verdicts(len(origins))
        for expression, known in self._known.items():
            made._known[expression] = bytearray(known[origin] if origin >= 0 else 0 for origin in origins)
        return made
