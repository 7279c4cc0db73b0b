"""One selector, checked and ready to be asked about devices."""

from typing import TYPE_CHECKING, Any

from protocols.cel import limits
from protocols.cel.compiling import check_literals, compiled, taken
from protocols.cel.cost import LIMIT, cost_of
from protocols.cel.engine import engine
from protocols.cel.errors import CompileError, EvaluationError, TooComplex
from protocols.cel.inputs import Input, inputs_of
from protocols.cel.named import Given
from protocols.cel.rewrite import rewrite
from protocols.cel.scan import tokens
from protocols.cel.told import told
from protocols.dra.types import Device

if TYPE_CHECKING:
    from cel_expr_python import cel


class Program:
    """Immutable, and safe to share: it keeps nothing of the devices it was asked about."""

    __slots__ = ("_evaluate", "_inputs", "cost", "source")

    def __init__(self, source: str, cost: int, expression: "cel.Expression", inputs: tuple[Input, ...]) -> None:
        self.source = source
        self.cost = cost
        """Worst case, in upstream's units."""
        self._evaluate = expression.eval
        self._inputs = inputs

    def matches(self, driver: str, device: Device) -> bool:
        """Whether the device is selected; raises EvaluationError."""
        data = {each.variable: each.read(driver, device) for each in self._inputs}
        try:
            result = self._evaluate(data=data)
            value = result.value()
        except RuntimeError as error:
            raise EvaluationError(told(str(error))) from None
        if value is True or value is False:
            return value
        raise EvaluationError(_fault(result, value))


def _fault(result: "cel.Value", value: Any) -> str:
    if result.type() == engine().error:
        return told(str(value))
    return f"CEL result of type {result.type().name().lower()} could not be converted to bool"


def compile_program(source: str) -> Program:
    """Raises CompileError, or its kinds TooLong and TooComplex. What could hurt the engine does not reach it."""
    given = taken(source)
    checked = compiled(engine().check, given)
    kind = checked.return_type().name()
    if kind not in ("BOOL", "DYN"):
        raise CompileError(f"must evaluate to bool or the unknown type, not {kind.lower()}")
    serialized = checked.serialize()
    cost = cost_of(serialized)
    if cost > LIMIT:
        raise TooComplex(limits.TOO_COMPLEX)
    check_literals(serialized, given)
    rewritten = rewrite(given.text, tokens(given.text))
    return Program(source, cost, compiled(engine().run, Given(rewritten.source)), inputs_of(rewritten))
