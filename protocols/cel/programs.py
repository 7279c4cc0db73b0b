"""Device selectors, compiled once while they are in use and evaluated for many devices.

Texts that do not compile are remembered as well.
"""

import functools
import threading

from protocols.cel.compiling import check_literals, compile_text, prepared, result_type
from protocols.cel.costs.estimate import LIMIT, cost_of
from protocols.cel.evaluation.devices import VARIABLES, special
from protocols.cel.evaluation.running import Expression
from protocols.cel.evaluation.simple import is_simple
from protocols.cel.evaluation.tree import tree_of
from protocols.cel.functions.values import type_name
from protocols.cel.text.source import TOO_COMPLEX, CompileError, EvaluationError, TooComplex, check_length
from protocols.dra.types import Device


class SelectorProgram:
    """A compiled selector: immutable and safe to share; it retains nothing of devices."""

    __slots__ = ("_expression", "cost", "is_simple", "serialized")

    def __init__(self, cost: int, serialized: bytes) -> None:
        """Make a program of a checked tree, without the native library. Raises CompileError."""
        self.cost = cost
        """Worst case, in upstream's units."""
        self.serialized = serialized
        """The checked tree."""
        self.is_simple = is_simple(serialized, cost)
        """True if a process may evaluate it beside its other work: no loops and patterns, and a small worst case."""
        self._expression = Expression(tree_of(serialized), VARIABLES, special)

    def matches(self, driver: str, device: Device) -> bool:
        """Return True when the device is selected; raises EvaluationError."""
        value = self._expression.evaluate((driver, device))
        if value is True or value is False:
            return value
        raise EvaluationError(f"CEL result of type {type_name(value)} could not be converted to bool")


def compile_program(source: str) -> SelectorProgram:
    """Compile a selector; raises CompileError, or its kinds TooLong and TooComplex.

    Texts that could harm the checker do not reach it.
    """
    from protocols.cel.environment import selectors

    text = prepared(source)
    checked = compile_text(selectors(), text)
    kind = result_type(checked)
    if kind not in ("BOOL", "DYN"):
        raise CompileError(f"must evaluate to bool or the unknown type, not {kind.lower()}")
    serialized = checked.serialize()
    cost = cost_of(serialized)
    if cost > LIMIT:
        raise TooComplex(TOO_COMPLEX)
    check_literals(serialized, text)
    return SelectorProgram(cost, serialized)


MOST_PROGRAMS = 1024
_compiling = threading.Lock()


def compiled(source: str) -> SelectorProgram:
    """Return the program of a text, shared by all threads of the process. Raises CompileError."""
    check_length(source)
    with _compiling:
        outcome = _outcome(source)
    if isinstance(outcome, CompileError):
        raise type(outcome)(*outcome.args)
    return outcome


@functools.lru_cache(MOST_PROGRAMS)
def _outcome(source: str) -> SelectorProgram | CompileError:
    try:
        return compile_program(source)
    except CompileError as error:
        return error.with_traceback(None)
