"""Convert stored custom objects to a served version: apiVersion, pruning and defaults."""

from actors.apiserver.api.objects import Obj
from actors.apiserver.api.resource import CachedConverter
from actors.apiserver.api.stored import Stored, decode_stored, encode_object, same
from actors.apiserver.custom.schema.defaults import fill
from actors.apiserver.custom.schema.nulls import drop_nulls
from actors.apiserver.custom.schema.prune import pruned
from actors.apiserver.custom.serving.kind import Kind

HEAD = 256


class CustomConverter(CachedConverter):
    """Converts to one version.

    While the definition has its first generation, objects in the storage version need no conversion: they were written
    under the current schema.
    """

    def __init__(self, kind: Kind) -> None:
        definition = kind.definition
        self._kind = kind
        self._storage = f"{definition.group}/{definition.storage}"
        self._stored_head = f'"apiVersion":"{self._storage}"'.encode()
        self._settled = definition.generation == 1 and kind.version.storage

    def make(self, stored: Stored) -> Stored:
        if self._settled:
            return stored
        obj = decode_stored(stored.raw, stored.rv)
        obj["apiVersion"] = self._kind.api_version
        pruned(obj, self._kind.node)
        drop_nulls(obj, self._kind.node)
        if self._kind.has_defaults:
            fill(obj, self._kind.node)
        return stored if same(obj, stored.obj) else Stored(stored.key, stored.rv, encode_object(obj))

    def to_stored(self, obj: Obj) -> Obj:
        return {**obj, "apiVersion": self._storage}

    def outdated(self, stored: Stored) -> bool:
        return self._stored_head not in stored.raw[:HEAD]
