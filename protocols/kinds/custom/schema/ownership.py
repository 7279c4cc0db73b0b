"""Derive field ownership for server-side apply from a schema: keyed lists, atomic values."""

from protocols.kinds.custom.schema.node import Node
from protocols.kinds.shapes.shape import ANY, BOOL, INT64, INT_OR_STRING, JSON, LIST, MAP, STRUCT, TEXT, Shape

SCALARS = {"string": TEXT, "boolean": BOOL, "integer": INT64, "number": JSON}


def _deduced() -> Shape:
    """Return the shape of schemaless values: maps are owned field by field, everything else as a whole."""
    shape = Shape(MAP)
    shape.item = shape
    return shape


DEDUCED = _deduced()


def shape_of(root: Node, name: str, metadata: Shape) -> Shape:
    """Return the shape of a kind; `name` is its OpenAPI component name."""
    shape = _shape(root, name)
    shape.fields.update(apiVersion=Shape(TEXT), kind=Shape(TEXT), metadata=metadata)
    shape.required = root.required
    shape.gvk = True
    return shape


def _shape(node: Node, name: str) -> Shape:
    if node.type == "array":
        return _list(node, name)
    if node.int_or_string:
        return Shape(INT_OR_STRING)
    if node.type != "object":
        return Shape(SCALARS.get(node.type, JSON)) if node.type or not node.kept else DEDUCED
    atomic = node.map_type == "atomic"
    if isinstance(node.additional, Node) and not node.properties:
        return Shape(MAP, item=_shape(node.additional, name), atomic=atomic)
    open_ended = node.kept or node.embedded or node.additional is True
    if open_ended and not node.properties:
        return Shape(ANY, atomic=True) if atomic else DEDUCED
    shape = Shape(STRUCT, name=name, atomic=atomic)
    shape.fields = {field: _shape(part, f"{name}.{field}") for field, part in node.properties.items()}
    shape.item = DEDUCED if open_ended else None
    return shape


def _list(node: Node, name: str) -> Shape:
    item = _shape(node.items, name) if node.items is not None else DEDUCED
    shape = Shape(LIST, item=item)
    if node.list_type == "set":
        shape.scalar_set = True
    elif node.list_type == "map" and item.form == STRUCT:
        shape.keys = node.keys
        for key in node.keys:
            field = item.fields.get(key)
            default = node.items.properties[key].raw.get("default") if field and node.items else None
            if field is not None and default is not None:
                field.default = default
    return shape
