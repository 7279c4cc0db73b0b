"""Run rules of custom resources. Programs are kept by text: values are plain maps, so one environment serves all."""

import functools
from typing import TYPE_CHECKING, Any

from protocols.cel.text.source import EvaluationError, evaluation_text
from protocols.cel.validation import compiled, runner

if TYPE_CHECKING:
    from cel_expr_python import cel

HAS_OLD = "_np_has_old"
OPTIONAL = {"oldSelf": (f"({HAS_OLD} ? optional.of(", ") : optional.none())")}


class Program:
    def __init__(self, expression: "cel.Expression", error: "cel.Type") -> None:
        self._evaluate = expression.eval
        self._error = error

    def value(self, this: Any, old: Any, has_old: bool) -> Any:
        """Raises EvaluationError."""
        try:
            result = self._evaluate(data={"self": this, "oldSelf": old, HAS_OLD: has_old})
            value = result.value()
        except RuntimeError as error:
            raise EvaluationError(evaluation_text(str(error))) from None
        if result.type() == self._error:
            raise EvaluationError(evaluation_text(str(value)))
        return value


@functools.lru_cache(maxsize=4096)
def program(text: str, optional_old: bool) -> Program:
    """Raises CompileError."""
    native, error = runner(HAS_OLD)
    return Program(compiled(native, text, OPTIONAL if optional_old else None), error)
