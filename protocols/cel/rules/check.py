"""Check the rules at one path of a schema: they compile, and their worst case is known.

To check, what a rule speaks of has the types of its schema; to run, it comes as plain maps.
"""

from protocols.cel import environment
from protocols.cel.compiling import check_literals, compile_text, prepared, result_type
from protocols.cel.costs.estimate import cost_of
from protocols.cel.costs.sizes import product
from protocols.cel.rules.cel_type import LIMIT, CelType, size_of
from protocols.cel.rules.evaluate import OLD, THIS
from protocols.cel.rules.messages import Messages

OPTIONAL_OLD = {OLD: ("optional.of(", ")")}


class Checker:
    """Compiles expressions about one type; `count` values of it may come in one request."""

    def __init__(self, cel_type: CelType, count: int) -> None:
        messages = Messages()
        this = messages.type_of(cel_type)
        self._env = environment.environment("rules", {THIS: this, OLD: this}, pool=messages.pool())
        self._cel_type, self._count = cel_type, count

    def check(self, text: str, optional_old: bool) -> tuple[str, int]:
        """Return the name of the result's type and the worst-case cost. Raises CompileError."""
        written = prepared(text, OPTIONAL_OLD if optional_old else None)
        expression = compile_text(self._env, written)
        serialized = expression.serialize()
        check_literals(serialized, written)
        return result_type(expression), self._worst(serialized)

    def _worst(self, serialized: bytes) -> int:
        """Return the worst-case cost.

        All values at this path come in one request: one may be as large as the request, or all may be equally small.
        """
        costs = []
        for number, cap in ((1, LIMIT), (self._count, max(1, LIMIT // self._count))):
            size = size_of(self._cel_type, cap)
            costs.append(product(number, cost_of(serialized, {THIS: size, OLD: size})))
        return max(costs)
