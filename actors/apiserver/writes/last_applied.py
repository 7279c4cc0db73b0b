"""From client-side to server-side apply: what kubectl wrote down before as applied is no conflict for kubectl now."""

import msgspec

from actors.apiserver.api.objects.paths import Obj, at
from actors.apiserver.api.schemas.shape import Shape
from actors.apiserver.writes.ownership.compare import owned
from actors.apiserver.writes.ownership.errors import Owned
from actors.apiserver.writes.ownership.fields import Fields
from actors.apiserver.writes.ownership.merge import without_nulls
from protocols.kube.jsons import read_json

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
MANAGER = "kubectl"


def allowed_anyway(conflict: Owned, manager: str, live: Obj, shape: Shape) -> bool:
    """Whether all that is in conflict was kubectl's own, by its annotation."""
    text = at(live, "metadata", "annotations", ANNOTATION)
    if manager != MANAGER or not isinstance(text, str):
        return False
    try:
        before = read_json(text)
    except msgspec.DecodeError:
        return False
    if not isinstance(before, dict):
        return False
    mine = owned(without_nulls(before), shape)
    own = ("f:metadata", "f:annotations", f"f:{ANNOTATION}")
    return all(path == own or _within(mine, path) for _, path in conflict.fields)


def _within(fields: Fields, path: tuple[str, ...]) -> bool:
    node: Fields | None = fields
    for element in path:
        node = (node or {}).get(element)
        if node is None:
            return False
    return True
