"""Objects as they are stored: kind, apiVersion, metadata first (readers splice there), no resourceVersion."""

import msgspec

from actors.apiserver.objects.paths import Obj

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def encode_object(obj: Obj) -> bytes:
    metadata = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
    rest = {key: value for key, value in obj.items() if key not in ("kind", "apiVersion", "metadata")}
    return _encode({"kind": obj["kind"], "apiVersion": obj["apiVersion"], "metadata": metadata, **rest})


def fresh_copy(obj: Obj) -> Obj:
    """A copy that shares nothing; several times faster than copy.deepcopy."""
    made: Obj = _decode(_encode(obj))
    return made


def same(new: Obj, old: Obj) -> bool:
    """Equal but for the resourceVersion, whatever the order of keys."""
    left, right = {**new["metadata"]}, {**old["metadata"]}
    left.pop("resourceVersion", None)
    right.pop("resourceVersion", None)
    return left == right and {**new, "metadata": 0} == {**old, "metadata": 0}
