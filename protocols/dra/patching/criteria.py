"""Decide whether a patch applies to a device: names first, then its class's selectors, then its own.

Selectors see the device as its driver published it, never what other patches made of it.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from protocols.cel.text.source import CompileError, EvaluationError
from protocols.cel.worker.messages import EvaluationEnded
from protocols.cel.worker.selections import matches
from protocols.dra.types import Device, DeviceClass, Filter, Patch

UNKNOWN_SELECTOR = "CEL expression empty (unsupported selector type?)"


class Selector(NamedTuple):
    """One expression, and its place in the object for users."""

    expression: str
    place: str
    """`selector #0` or `class gpu: selector #0`."""


class Faulty(NamedTuple):
    """Why an expression cannot be decided."""

    reason: str
    """Reason of the event: CELRuntimeError or CELCompileError."""
    text: str
    ended: bool = False
    """The evaluation was ended, as that of a hostile expression or by a busy machine: another one may not be."""


Verdict = bool | Faulty


def has_matching_names(filter: Filter, driver: str, pool: str, device: str) -> bool:
    """Return True when a filter's names match."""
    return filter.driver in (None, driver) and filter.pool in (None, pool) and filter.device in (None, device)


def selectors_of(patch: Patch, classes: Mapping[str, DeviceClass]) -> tuple[Selector, ...] | None:
    """Return the selectors in the order of evaluation; None if the class is missing, so that nothing matches."""
    selectors: list[Selector] = []
    name = patch.filter.class_name
    if name is not None:
        if (known := classes.get(name)) is None:
            return None
        selectors += _placed(known.selectors, f"class {name}: ")
    return (*selectors, *_placed(patch.filter.selectors, ""))


def _placed(expressions: tuple[str, ...], where: str) -> Iterator[Selector]:
    for number, expression in enumerate(expressions):
        yield Selector(expression, f"{where}selector #{number}")


def judge(driver: str, expression: str, device: Device) -> Verdict:
    """Raises SelectorPending."""
    try:
        return matches(expression, driver, device)
    except EvaluationError as error:
        return Faulty("CELRuntimeError", f"runtime error: {error}", isinstance(error, EvaluationEnded))
    except CompileError as error:
        text = " ".join(str(error).split()) if expression else UNKNOWN_SELECTOR
        return Faulty("CELCompileError", text)
