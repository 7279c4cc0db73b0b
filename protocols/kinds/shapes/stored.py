"""An object that a user wrote, as the API stores it."""

from copy import deepcopy

from protocols.kinds.shapes.clean import clean
from protocols.kinds.shapes.registry import kind_shape
from protocols.kinds.table import Resource
from protocols.kube.meta import Object


def as_stored(obj: Object, resource: Resource) -> Object:
    """Return a copy with the fields of its kind alone. Raises WrongType."""
    stored, shape = deepcopy(obj), kind_shape(resource.group, resource.version, resource.kind)
    assert shape is not None
    clean(stored, shape)
    return stored
