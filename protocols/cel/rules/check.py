"""Check the rules at one path of a schema: they compile, and their worst case is known."""

from typing import Any

from protocols.cel.compiling import result_type
from protocols.cel.costs.sizes import product
from protocols.cel.rules.cel_type import LIMIT, CelType, size_of
from protocols.cel.rules.messages import Messages
from protocols.cel.validation import checked, checker, worst

OPTIONAL_OLD = {"oldSelf": ("optional.of(", ")")}


class Checker:
    """Compiles expressions about one type; `count` values of it may come in one request."""

    def __init__(self, cel_type: CelType, count: int) -> None:
        messages = Messages()
        this = messages.type_of(cel_type)
        self._env = checker(messages.pool(), this)
        self._cel_type, self._count = cel_type, count

    def check(self, text: str, optional_old: bool) -> tuple[str, int]:
        """Return the name of the result's type and the worst-case cost. Raises CompileError."""
        expression = checked(self._env, text, OPTIONAL_OLD if optional_old else None)
        return result_type(expression), self._worst(expression)

    def _worst(self, expression: Any) -> int:
        """Return the worst-case cost.

        All values at this path come in one request: one may be as large as the request, or all may be equally small.
        """
        costs = []
        for number, cap in ((1, LIMIT), (self._count, max(1, LIMIT // self._count))):
            size = size_of(self._cel_type, cap)
            costs.append(product(number, worst(expression, {"self": size, "oldSelf": size})))
        return max(costs)
