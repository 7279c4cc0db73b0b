"""CEL types for the engine's type checker: objects become protobuf messages in a pool made for one check.

Protobuf has no list of lists and no map of lists: their contents are checked at evaluation only.
"""

from typing import TYPE_CHECKING

from google.protobuf import duration_pb2, struct_pb2, timestamp_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool

from actors.apiserver.custom.rule.kind import Kind

if TYPE_CHECKING:
    from cel_expr_python import cel

PACKAGE = "rules"
KNOWN = (struct_pb2, timestamp_pb2, duration_pb2)
_F = FieldDescriptorProto
SCALARS = {
    "bool": _F.TYPE_BOOL,
    "int": _F.TYPE_INT64,
    "double": _F.TYPE_DOUBLE,
    "string": _F.TYPE_STRING,
    "bytes": _F.TYPE_BYTES,
}
FOREIGN = {
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
    "dyn": "google.protobuf.Value",
    "list": "google.protobuf.ListValue",
    "map": "google.protobuf.Struct",
}
"""Types without a message of their own; lists and maps use these when nested in a list or map."""


class Messages:
    def __init__(self) -> None:
        self._file = FileDescriptorProto(name="rules.proto", package=PACKAGE, syntax="proto2")
        self._file.dependency.extend(known.DESCRIPTOR.name for known in KNOWN)
        self._made: dict[int, tuple[Kind, str]] = {}

    def pool(self) -> DescriptorPool:
        pool = DescriptorPool()
        for known in KNOWN:
            pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
        pool.AddSerializedFile(self._file.SerializeToString())
        return pool

    def type_of(self, kind: Kind) -> "cel.Type":
        from cel_expr_python import cel

        plain = {
            "bool": cel.Type.BOOL,
            "int": cel.Type.INT,
            "double": cel.Type.DOUBLE,
            "string": cel.Type.STRING,
            "bytes": cel.Type.BYTES,
            "timestamp": cel.Type.TIMESTAMP,
            "duration": cel.Type.DURATION,
            "dyn": cel.Type.DYN,
        }
        if kind.form == "object":
            return cel.Type(self._message(kind))
        if kind.item is None:
            return plain[kind.form]
        item = self.type_of(kind.item)
        return cel.Type.List(item) if kind.form == "list" else cel.Type.Map(cel.Type.STRING, item)

    def _message(self, kind: Kind) -> str:
        held = self._made.get(id(kind))
        if held is not None:
            return held[1]
        name = f"{PACKAGE}.O{len(self._made)}"
        self._made[id(kind)] = kind, name
        message = DescriptorProto(name=name.rpartition(".")[2])
        ordered = sorted(kind.fields.values(), key=lambda field: field[1].form == "map")
        for number, (name_in_cel, each) in enumerate(ordered, 1):
            self._field(message, name_in_cel, number, each)
        self._file.message_type.append(message)
        return name

    def _field(self, message: DescriptorProto, name_in_cel: str, number: int, kind: Kind) -> None:
        if kind.form == "list" and kind.item is not None:
            self._typed(message.field.add(name=name_in_cel, number=number, label=_F.LABEL_REPEATED), kind.item)
        elif kind.form == "map" and kind.item is not None and _entry(name_in_cel) not in _taken(message):
            entry = message.nested_type.add(name=_entry(name_in_cel))
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, label=_F.LABEL_OPTIONAL, type=_F.TYPE_STRING)
            self._typed(entry.field.add(name="value", number=2, label=_F.LABEL_OPTIONAL), kind.item)
            field = message.field.add(name=name_in_cel, number=number, label=_F.LABEL_REPEATED, type=_F.TYPE_MESSAGE)
            field.type_name = f".{PACKAGE}.{message.name}.{entry.name}"
        else:
            self._typed(message.field.add(name=name_in_cel, number=number, label=_F.LABEL_OPTIONAL), kind)

    def _typed(self, field: FieldDescriptorProto, kind: Kind) -> None:
        if kind.form in SCALARS:
            field.type = SCALARS[kind.form]
            return
        field.type = _F.TYPE_MESSAGE
        field.type_name = f".{FOREIGN[kind.form] if kind.form in FOREIGN else self._message(kind)}"


def _entry(name_in_cel: str) -> str:
    """Return the name that protobuf requires for the entry type of a map field."""
    return "".join(part[:1].upper() + part[1:] for part in name_in_cel.split("_")) + "Entry"


def _taken(message: DescriptorProto) -> set[str]:
    return {each.name for each in message.field} | {each.name for each in message.nested_type}
