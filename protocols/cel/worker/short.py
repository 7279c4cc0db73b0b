"""Short expressions of policies, evaluated in the process that asks from trees that the worker checked.

They have only light patterns and none of the dear functions, so that a unit of cost is half a microsecond. What turns
out to need more than a small budget, since it loops over or compares large parts of the objects, is left to the worker.
"""

from protocols.bounded import BoundedMap
from protocols.cel import policies
from protocols.cel.evaluation.simple import is_short
from protocols.cel.text.source import CompileError
from protocols.cel.worker.local import Engine
from protocols.cel.worker.messages import Answer, Checked, EvaluatePolicy, Expression

PROGRAMS = 1024
LARGEST = 64 * 1024
"""Bytes of a checked tree that is kept."""
COST = 10_000
"""Units of all expressions of one question here: some 5 ms."""


class ShortPolicies:
    """Programs of short expressions; None for those that are left to the worker."""

    def __init__(self) -> None:
        self._programs = BoundedMap[Expression, policies.PolicyProgram | None](PROGRAMS)
        self._engine = Engine(program=self._program, cost=COST)

    def unknown(self, question: EvaluatePolicy) -> list[Expression]:
        """Return the expressions that were not checked yet."""
        return [expression for expression in question.expressions if expression not in self._programs]

    def add(self, expression: Expression, checked: Answer) -> None:
        """Keep the program of a checked expression if it is short; with errors it is left to the worker."""
        program = None
        if isinstance(checked, Checked) and len(checked.serialized) <= LARGEST:
            try:
                if is_short(checked.serialized):
                    program = policies.PolicyProgram(checked.serialized)
            except (CompileError, ValueError):
                program = None
        self._programs[expression] = program

    def answer(self, question: EvaluatePolicy) -> Answer | None:
        """Return the answer, or None if an expression is left to the worker."""
        if any(self._programs.get(expression) is None for expression in question.expressions):
            return None
        reply = self._engine.answer(question)
        return None if self._engine.spent else reply

    def _program(self, source: str, scope: policies.PolicyScope) -> policies.PolicyProgram:
        program = self._programs[Expression(source, (scope.params, scope.authorizer, scope.variables))]
        assert program is not None
        return program
