"""Device selectors, compiled once while they are in use and evaluated for many devices.

A program reads only those parts of a device that it needs, since the engine copies all that it is given. Texts that do
not compile are remembered as well.
"""

import functools
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Protocol

from protocols.cel.compiling import check_literals, compile_text, compile_to_run, prepared, result_type
from protocols.cel.costs.estimate import LIMIT, cost_of
from protocols.cel.environment import engine
from protocols.cel.libraries.named import EngineText
from protocols.cel.libraries.quantities import encode_quantity, encode_version
from protocols.cel.text.rewrite import Domain, Rewritten, rewrite
from protocols.cel.text.source import (
    TOO_COMPLEX,
    CompileError,
    EvaluationError,
    TooComplex,
    check_length,
    evaluation_text,
    tokens,
)
from protocols.dra.types import VERSION, Device

if TYPE_CHECKING:
    from cel_expr_python import cel


class Input(Protocol):
    """One variable of a program."""

    variable: str

    def read(self, driver: str, device: Device) -> Any: ...


class _Driver:
    variable = "device.driver"

    def read(self, driver: str, device: Device) -> str:
        return driver


class _Shared:
    variable = "device.allowMultipleAllocations"

    def read(self, driver: str, device: Device) -> bool:
        return device.extras.shared


class _Entries:
    """Known entries of one domain."""

    def __init__(self, domain: Domain, ids: set[str]) -> None:
        self.variable = domain.variable
        self._capacity = domain.map == "capacity"
        self._names = tuple((f"{domain.domain}/{each}", each) for each in sorted(ids))

    def read(self, driver: str, device: Device) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self._capacity:
            for name, each in self._names:
                if (amount := device.capacity.get(name)) is not None:
                    found[each] = encode_quantity(amount.value)
            return found
        for name, each in self._names:
            if (attribute := device.attributes.get(name)) is not None:
                value = attribute.value
                found[each] = encode_version(str(value)) if attribute.kind == VERSION else value
        return found


class _Domain:
    """All entries of one domain."""

    def __init__(self, domain: Domain) -> None:
        self.variable = domain.variable
        self._map = domain.map
        self._domain = domain.domain

    def read(self, driver: str, device: Device) -> dict[str, Any]:
        return _by_domain(self._map, device).get(self._domain, {})


class _Whole:
    """All domains."""

    def __init__(self, name: str) -> None:
        self.variable = f"device.{name}"
        self._map = name

    def read(self, driver: str, device: Device) -> dict[str, Any]:
        return _by_domain(self._map, device)


def _by_domain(map_name: str, device: Device) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    if map_name == "capacity":
        for name, amount in device.capacity.items():
            domain, each = _parts(name)
            found.setdefault(domain, {})[each] = encode_quantity(amount.value)
        return found
    for name, attribute in device.attributes.items():
        domain, each = _parts(name)
        value = attribute.value
        found.setdefault(domain, {})[each] = encode_version(str(value)) if attribute.kind == VERSION else value
    return found


@functools.lru_cache(maxsize=8192)
def _parts(name: str) -> tuple[str, str]:
    domain, _, each = name.rpartition("/")
    return domain, each


_FIELDS: dict[str, Input] = {"driver": _Driver(), "allowMultipleAllocations": _Shared()}


def inputs_of(rewritten: Rewritten) -> tuple[Input, ...]:
    found = [_FIELDS[name] for name in sorted(rewritten.names) if name in _FIELDS]
    found += [_Domain(each) if each.ids is None else _Entries(each, each.ids) for each in rewritten.domains]
    return (*found, *map(_Whole, sorted(rewritten.maps)))


class Program:
    """A compiled selector: immutable and safe to share; it retains nothing of devices."""

    __slots__ = ("_evaluate", "_inputs", "cost", "source")

    def __init__(self, source: str, cost: int, expression: "cel.Expression", inputs: tuple[Input, ...]) -> None:
        self.source = source
        self.cost = cost
        """Worst case, in upstream's units."""
        self._evaluate = expression.eval
        self._inputs = inputs

    def matches(self, driver: str, device: Device) -> bool:
        """Return True when the device is selected; raises EvaluationError."""
        data = {each.variable: each.read(driver, device) for each in self._inputs}
        try:
            result = self._evaluate(data=data)
            value = result.value()
        except RuntimeError as error:
            raise EvaluationError(evaluation_text(str(error))) from None
        if value is True or value is False:
            return value
        raise EvaluationError(_fault(result, value))


def _fault(result: "cel.Value", value: Any) -> str:
    if result.type() == engine().error:
        return evaluation_text(str(value))
    return f"CEL result of type {result.type().name().lower()} could not be converted to bool"


def compile_program(source: str) -> Program:
    """Compile a selector; raises CompileError, or its kinds TooLong and TooComplex.

    Texts that could harm the engine do not reach it.
    """
    text = prepared(source)
    checked = compile_text(engine().check, text)
    kind = result_type(checked)
    if kind not in ("BOOL", "DYN"):
        raise CompileError(f"must evaluate to bool or the unknown type, not {kind.lower()}")
    serialized = checked.serialize()
    cost = cost_of(serialized)
    if cost > LIMIT:
        raise TooComplex(TOO_COMPLEX)
    check_literals(serialized, text)
    rewritten = rewrite(text.text, tokens(text.text))
    return Program(source, cost, compile_to_run(engine().run, EngineText(rewritten.source)), inputs_of(rewritten))


SIZE = 1024


class Programs:
    """The least recently used goes first. Safe for threads; holds no results, for tenants share it."""

    def __init__(self, size: int = SIZE) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Program | CompileError] = OrderedDict()

    def compiled(self, source: str) -> Program:
        """Raises CompileError."""
        check_length(source)
        with self._lock:
            found = self._known.get(source)
            if found is None:
                found = self._known[source] = _outcome(source)
                if len(self._known) > self._size:
                    self._known.popitem(last=False)
            else:
                self._known.move_to_end(source)
        if isinstance(found, CompileError):
            raise type(found)(*found.args)
        return found


def _outcome(source: str) -> Program | CompileError:
    try:
        return compile_program(source)
    except CompileError as error:
        return error.with_traceback(None)


_shared = Programs()
compiled = _shared.compiled
"""The program of a text, shared by the whole process; raises CompileError."""
