"""CEL types for the engine's type checker: objects become protobuf messages in a pool made for one check.

Protobuf has no list of lists and no map of lists: their contents are checked at evaluation only.
"""

from typing import TYPE_CHECKING

from google.protobuf import duration_pb2, struct_pb2, timestamp_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool

from protocols.cel.rules.values import CelType

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
    """Protobuf messages of the objects of one check; ask for all types before the pool."""

    def __init__(self) -> None:
        self._file = FileDescriptorProto(name="rules.proto", package=PACKAGE, syntax="proto2")
        self._file.dependency.extend(known.DESCRIPTOR.name for known in KNOWN)
        self._made: dict[int, tuple[CelType, str]] = {}

    def pool(self) -> DescriptorPool:
        pool = DescriptorPool()
        for known in KNOWN:
            pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
        pool.AddSerializedFile(self._file.SerializeToString())
        return pool

    def type_of(self, cel_type: CelType) -> "cel.Type":
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
        if cel_type.form == "object":
            return cel.Type(self._message(cel_type))
        if cel_type.item is None:
            return plain[cel_type.form]
        item = self.type_of(cel_type.item)
        return cel.Type.List(item) if cel_type.form == "list" else cel.Type.Map(cel.Type.STRING, item)

    def _message(self, cel_type: CelType) -> str:
        held = self._made.get(id(cel_type))
        if held is not None:
            return held[1]
        name = f"{PACKAGE}.O{len(self._made)}"
        self._made[id(cel_type)] = cel_type, name
        message = DescriptorProto(name=name.rpartition(".")[2])
        ordered = sorted(cel_type.fields.values(), key=lambda field: field[1].form == "map")
        for number, (name_in_cel, field_type) in enumerate(ordered, 1):
            self._field(message, name_in_cel, number, field_type)
        self._file.message_type.append(message)
        return name

    def _field(self, message: DescriptorProto, name_in_cel: str, number: int, cel_type: CelType) -> None:
        if cel_type.form == "list" and cel_type.item is not None:
            self._typed(message.field.add(name=name_in_cel, number=number, label=_F.LABEL_REPEATED), cel_type.item)
        elif cel_type.form == "map" and cel_type.item is not None and _entry(name_in_cel) not in _taken(message):
            entry = message.nested_type.add(name=_entry(name_in_cel))
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, label=_F.LABEL_OPTIONAL, type=_F.TYPE_STRING)
            self._typed(entry.field.add(name="value", number=2, label=_F.LABEL_OPTIONAL), cel_type.item)
            field = message.field.add(name=name_in_cel, number=number, label=_F.LABEL_REPEATED, type=_F.TYPE_MESSAGE)
            field.type_name = f".{PACKAGE}.{message.name}.{entry.name}"
        else:
            self._typed(message.field.add(name=name_in_cel, number=number, label=_F.LABEL_OPTIONAL), cel_type)

    def _typed(self, field: FieldDescriptorProto, cel_type: CelType) -> None:
        if cel_type.form in SCALARS:
            field.type = SCALARS[cel_type.form]
            return
        field.type = _F.TYPE_MESSAGE
        field.type_name = f".{FOREIGN[cel_type.form] if cel_type.form in FOREIGN else self._message(cel_type)}"


def _entry(name_in_cel: str) -> str:
    """Return the name that protobuf requires for the entry type of a map field."""
    return "".join(part[:1].upper() + part[1:] for part in name_in_cel.split("_")) + "Entry"


def _taken(message: DescriptorProto) -> set[str]:
    return {declared.name for declared in message.field} | {declared.name for declared in message.nested_type}
