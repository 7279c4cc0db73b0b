"""The controller of definitions: the end of one whose objects cannot all be read."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from actors.apiserver.api.errors import CorruptObject
from actors.apiserver.api.stored import Stored
from actors.apiserver.custom.controller import DefinitionController
from actors.apiserver.replica.replica import Replica
from actors.apiserver.table import TABLE
from protocols.kinds.custom.definitions.definition import CLEANUP

NAME = "cats.example.com"
DEFINITION = {
    "kind": "CustomResourceDefinition",
    "apiVersion": "apiextensions.k8s.io/v1",
    "metadata": {"name": NAME, "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [CLEANUP]},
    "spec": {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"plural": "cats", "singular": "cat", "kind": "Cat", "listKind": "CatList"},
        "versions": [{"name": "v1", "served": True, "storage": True}],
    },
}


@pytest.mark.parametrize("raw", [b"\xff", b"7", b'{"kind":"Cat","apiVersion":"example.com/v1"}'])
async def test_unreadable_object_of_a_deleted_definition_is_an_error_to_retry(raw: bytes) -> None:
    class Storage:
        async def page(self, *_: Any) -> Any:
            return SimpleNamespace(objects=[Stored("tom", 5, raw)], more=False)

    storage: Any = Storage()
    controller = DefinitionController(storage, Replica(TABLE.of("customresourcedefinitions")), {}, 0)
    with pytest.raises(CorruptObject, match="tom"):
        await controller._delete_objects(Stored(NAME, 4, msgspec.json.encode(DEFINITION)))
