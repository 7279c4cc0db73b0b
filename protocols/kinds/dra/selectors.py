"""CEL selectors and opaque parameters of classes, claims and patches."""

from typing import Any

import msgspec

from protocols.cel.text.source import LIMIT, CelError, TooComplex, TooLong
from protocols.cel.worker.asking import answer
from protocols.cel.worker.messages import CheckSelector
from protocols.kinds.check.causes import Cause, forbidden, invalid, required, too_long
from protocols.kinds.dra.names import driver_causes, each, table
from protocols.kube.meta import Object

SELECTORS, CONFIGS, PARAMETERS = 32, 32, 10 * 1024


class Budget:
    """Limits the CEL text compiled for one object, so that one request cannot delay others."""

    BYTES = 64 * 1024

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._left = self.BYTES

    def take(self, expression: str) -> bool:
        if expression not in self._seen:
            self._seen.add(expression)
            self._left -= len(expression)
        return self._left >= 0


def selectors_causes(path: str, selectors: Any, budget: Budget, stored: Any = None) -> list[Cause]:
    """Validate selectors; a list equal to `stored` was accepted before and is not compiled again."""
    if stored and selectors == stored:
        return []
    return each(path, selectors, SELECTORS, lambda at, value: _selector_causes(at, value, budget))


def _selector_causes(path: str, selector: Any, budget: Budget) -> list[Cause]:
    cel = table(selector).get("cel")
    if not isinstance(cel, dict):
        return [required(f"{path}.cel")]
    expression = str(cel.get("expression") or "")
    return expression_causes(f"{path}.cel.expression", expression, budget)


def expression_causes(path: str, expression: str, budget: Budget) -> list[Cause]:
    if not expression:
        return [invalid(path, expression, "compilation failed: it is empty")]
    if not budget.take(expression):
        text = f"the expressions of one object must not have more than {Budget.BYTES} bytes"
        return [forbidden(path, text)]
    try:
        answer(CheckSelector(expression))
    except TooLong:
        return [too_long(path, LIMIT)]
    except TooComplex as error:
        return [forbidden(path, str(error))]
    except CelError as error:
        return [invalid(path, expression, str(error))]
    return []


def opaque_causes(path: str, config: Any) -> list[Cause]:
    """Validate opaque configuration, the only supported kind."""
    opaque = table(config).get("opaque")
    if not isinstance(opaque, dict):
        return [required(f"{path}.opaque")]
    causes = driver_causes(f"{path}.opaque.driver", opaque.get("driver") or "")
    return causes + object_causes(f"{path}.opaque.parameters", opaque.get("parameters"))


def object_causes(path: str, value: Any, needed: bool = True) -> list[Cause]:
    if value is None:
        return [required(path)] if needed else []
    if not isinstance(value, dict):
        return [invalid(path, "<value omitted>", "must be a valid JSON object")]
    size = len(msgspec.json.encode(value))
    return [too_long(path, PARAMETERS)] if size > PARAMETERS else []


def config_causes(path: str, configs: Any, limit: int = CONFIGS) -> list[Cause]:
    return each(path, configs, limit, opaque_causes)


def spec_of(obj: Object) -> Object:
    return table(obj.get("spec"))
