"""Objects as they are stored: kind, apiVersion, metadata first (readers splice there), no resourceVersion."""

import msgspec

from actors.apiserver.api.objects.paths import Obj
from protocols.kube.jsons import read_json

_encode = msgspec.json.Encoder().encode


_FIRST: Obj = {"kind": "", "apiVersion": "", "metadata": {}}


def encode_object(obj: Obj) -> bytes:
    ordered = _FIRST | obj
    if "resourceVersion" in obj["metadata"]:
        ordered["metadata"] = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
    return _encode(ordered)


def fresh_copy(obj: Obj) -> Obj:
    """A copy that shares nothing; several times faster than copy.deepcopy."""
    made: Obj = read_json(_encode(obj))
    return made


def same(new: Obj, old: Obj) -> bool:
    """Equal but for the resourceVersion, whatever the order of keys."""
    left, right = {**new["metadata"]}, {**old["metadata"]}
    left.pop("resourceVersion", None)
    right.pop("resourceVersion", None)
    return left == right and {**new, "metadata": 0} == {**old, "metadata": 0}
