"""CEL selectors and opaque parameters of classes, claims and patches."""

from typing import Any

import msgspec

from protocols.cel.text.source import LIMIT, CelError, TooComplex, TooLong
from protocols.cel.worker.asking import answer
from protocols.cel.worker.messages import CheckPolicy, CheckSelector
from protocols.kinds.check.causes import forbidden, invalid, too_long
from protocols.kinds.check.table import Causes, Check, Ordered, each, present
from protocols.kinds.check.values import driver_name
from protocols.kube.meta import Object
from protocols.kube.objects import mapping

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


def compile_expression(path: str, question: CheckSelector | CheckPolicy, budget: Budget, causes: Causes) -> None:
    """Have an expression compiled."""
    text = question.source
    if not budget.take(text):
        causes.append(forbidden(path, f"the expressions of one object must not have more than {Budget.BYTES} bytes"))
        return
    try:
        answer(question)
    except TooLong:
        causes.append(too_long(path, LIMIT))
    except TooComplex as error:
        causes.append(forbidden(path, str(error)))
    except CelError as error:
        causes.append(invalid(path, text, str(error)))


def selectors(budget: Budget, stored: Any = None) -> Check:
    """Return the check of selectors; a list equal to `stored` was accepted before and is not compiled again."""

    def expression(path: str, text: str, causes: Causes) -> None:
        if text:
            compile_expression(path, CheckSelector(text), budget, causes)
        else:
            causes.append(invalid(path, text, "compilation failed: it is empty"))

    selector = Ordered("cel", cel=present(Ordered("expression", expression=expression)))
    every = each(selector, limit=SELECTORS)

    def check(path: str, values: list[Object], causes: Causes) -> None:
        if not stored or values != stored:
            every(path, values, causes)

    return check


def parameters(path: str, value: Any, causes: Causes) -> None:
    """Check opaque parameters: a JSON object of at most PARAMETERS bytes, for a driver to read."""
    if not isinstance(value, dict):
        causes.append(invalid(path, "<value omitted>", "must be a valid JSON object"))
    elif len(msgspec.json.encode(value)) > PARAMETERS:
        causes.append(too_long(path, PARAMETERS))


opaque = present(Ordered("driver parameters", driver=driver_name, parameters=present(parameters)))
"""Opaque configuration, the only supported kind."""
configs = each(Ordered("opaque", opaque=opaque), limit=CONFIGS)


def spec_of(obj: Object) -> Object:
    """Return the object's spec; an empty map if it is missing or no map."""
    return mapping(obj.get("spec"))
