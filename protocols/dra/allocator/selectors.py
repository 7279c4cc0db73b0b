"""CEL behind the allocator's selectors."""

from protocols.cel.errors import CompileError, EvaluationError
from protocols.cel.programs import compiled
from protocols.dra.allocator.errors import SelectorFault
from protocols.dra.types import Device


class CelSelectors:
    """Counts what it did, for metrics."""

    def __init__(self) -> None:
        self.evaluations = 0
        self.failures = 0

    def matches(self, expression: str, driver: str, device: Device) -> bool:
        self.evaluations += 1
        try:
            return compiled(expression).matches(driver, device)
        except CompileError as error:
            self.failures += 1
            raise SelectorFault(f"CEL compile error: {error}") from None
        except EvaluationError as error:
            self.failures += 1
            raise SelectorFault(f"CEL runtime error: {error}") from None
