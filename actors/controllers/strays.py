"""Since when a node that pods are bound to does not exist. Pure; time is a monotonic clock's."""

WAIT_S, AGAIN_S = 60.0, 10.0


class Strays:
    def __init__(self) -> None:
        self._due: dict[str, float] = {}

    def missing(self, node: str, at: float) -> None:
        self._due.setdefault(node, at + WAIT_S)

    def back(self, node: str) -> None:
        self._due.pop(node, None)

    def later(self, node: str, at: float) -> None:
        """It could not be settled."""
        self._due[node] = at + AGAIN_S

    def due(self, at: float) -> list[str]:
        return [node for node, when in self._due.items() if when <= at]

    def pause(self, at: float) -> float | None:
        """Seconds until something is due; None = nothing will be."""
        return max(0.0, min(self._due.values()) - at) if self._due else None
