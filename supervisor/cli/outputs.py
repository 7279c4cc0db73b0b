"""Outputs of commands with `-o json`: type, JSON schema and the tables of docs/reference/json.md."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import msgspec

OBJECT, LIST, LINES = "an object", "a list", "a line of JSON per object"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Output(NamedTuple):
    """The type is imported only when it is asked for."""

    place: str
    """MODULE:CLASS of an item."""
    shape: str = OBJECT

    @property
    def item(self) -> type[msgspec.Struct]:
        module, _, name = self.place.partition(":")
        struct: type[msgspec.Struct] = getattr(import_module(module), name)
        return struct

    @property
    def whole(self) -> Any:
        """Return the type of the output; of lines, that of one line."""
        return list[self.item] if self.shape == LIST else self.item  # type: ignore[name-defined]  # known at run time


OUTPUTS = {
    "status": Output("protocols.messages.supervisor:PlaneStatus"),
    "trace": Output("supervisor.trace.command:JsonTrace"),
    "trace --diff": Output("supervisor.trace.compare:Comparison"),
    "trace --follow": Output("supervisor.trace.command:JsonRow", LINES),
    "why": Output("supervisor.why.model.types:Diagnosis"),
    "watch pods": Output("supervisor.cli.inspect.watch:PodLine", LINES),
    "watch allocatable": Output("supervisor.cli.inspect.watch:AllocatableLine", LINES),
    "devices": Output("supervisor.client.devices:DeviceRow", LIST),
    "devices --plugins": Output("supervisor.cli.inspect.devices:ResourceRow", LIST),
    "devices --drivers": Output("supervisor.client.drivers:DriversView"),
    "devices --patched": Output("supervisor.dra.explain:Explanation", LIST),
    "devices --published": Output("supervisor.dra.explain:Explanation", LIST),
    "devices --explain": Output("supervisor.dra.explain:Explanation", LIST),
    "devices --shares": Output("supervisor.dra.shares:SharedDevice", LIST),
    "devices --claim": Output("supervisor.dra.snapshot:Placement", LIST),
    "devices --why": Output("supervisor.dra.why:PodAnswer"),
    "cpus": Output("supervisor.cli.inspect.devices:CpuView"),
    "calls": Output("supervisor.calls.text:CallLine", LINES),
    "fleet run": Output("actors.fleet.workload.figures:ScenarioFigures"),
    "fleet fault": Output("protocols.messages.fleet:Hit"),
    "fleet status": Output("protocols.messages.fleet:FleetStatus"),
    "conform": Output("supervisor.conform.report.json:RunReport"),
    "conform --list": Output("supervisor.conform.verdict:Listed", LIST),
    "check": Output("supervisor.machine.check:Finding", LIST),
    "bench": Output("supervisor.cli.bench:Measured", LIST),
    "size": Output("supervisor.size.needs:SizeNeeds"),
    "version": Output("supervisor.machine.version:Version"),
}
"""By the words of the command that choose the output."""


def schema(name: str) -> dict[str, Any]:
    """Return the JSON schema of an output, with the meaning of each field that has a docstring."""
    output = OUTPUTS[name]
    json_schema = msgspec.json.schema(output.whole)
    for struct in structs_of(output.whole):
        for field, text in meanings(struct).items():
            json_schema["$defs"][struct.__name__]["properties"][field]["description"] = text
    return {"$schema": DIALECT, "title": f"nodeplane {name} -o json: {output.shape}", **json_schema}


def structs_of(kind: Any) -> list[type[msgspec.Struct]]:
    """Return the structs of which a type is made, each once, the outer ones first."""
    structs: dict[type[msgspec.Struct], None] = {}
    _walk(msgspec.inspect.type_info(kind), structs)
    return list(structs)


def _walk(info: Any, found: dict[type[msgspec.Struct], None]) -> None:
    if isinstance(info, msgspec.inspect.StructType):
        if info.cls in found:
            return
        found[info.cls] = None
        inner: tuple[Any, ...] = tuple(field.type for field in info.fields)
    else:
        parts = ("item_type", "key_type", "value_type")
        inner = (*getattr(info, "types", ()), *getattr(info, "item_types", ()))
        inner += tuple(getattr(info, part) for part in parts if hasattr(info, part))
    for part_type in inner:
        _walk(part_type, found)


@cache
def meanings(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return the docstrings of a struct's fields by their names in JSON, those of structs it extends included."""
    docstrings: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        if issubclass(base, msgspec.Struct) and base is not msgspec.Struct:
            docstrings.update(_docstrings(textwrap.dedent(inspect.getsource(base))))
    names = {declared.name: declared.encode_name for declared in msgspec.structs.fields(struct)}
    return {names[field]: text for field, text in docstrings.items()}


def _docstrings(source: str) -> Iterator[tuple[str, str]]:
    """Yield name and docstring of each annotated field that a string follows."""
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    for field, after in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = after.value if isinstance(after, ast.Expr) else None
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                yield field.target.id, " ".join(text.value.split())
