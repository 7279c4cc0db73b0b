"""The object of a pod, packed while nothing is done about it."""

import zlib
from typing import cast

import msgspec

from protocols.kinds import views
from protocols.kube.jsons import read_json_object
from protocols.kube.meta import Object

FAST = 1
"""Level of compression: 15 us a pod, and 9 us to read it."""


def packed(pod: views.Pod) -> bytes:
    """Return a pod in a third of its JSON, without the record of who wrote which field."""
    metadata = {name: value for name, value in (pod.get("metadata") or {}).items() if name != "managedFields"}
    return zlib.compress(msgspec.json.encode({**pod, "metadata": metadata}), FAST)


def fingerprint(body: Object) -> int:
    """Return a number for the content of a patch."""
    return zlib.crc32(msgspec.json.encode(body))


def unpacked(content: bytes) -> views.Pod:
    """Return the object of packed content."""
    return cast("views.Pod", read_json_object(zlib.decompress(content)))
