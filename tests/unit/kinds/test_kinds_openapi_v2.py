"""OpenAPI v2 from the v3 documents: references, what v2 cannot say, and the protobuf form."""

import msgspec

from actors.apiserver.table import TABLE
from protocols.kinds.openapi.documents import OpenApi
from protocols.kinds.openapi.v2 import as_json, as_protobuf, converted, definitions
from protocols.kinds.served.row import Table
from protocols.wire.protobuf import fields

POD = "io.k8s.api.core.v1.Pod"


def found() -> dict[str, dict[str, object]]:
    return definitions(made.body for made in OpenApi(Table(TABLE.built_in)).made().values())


def test_definitions_have_every_kind_and_no_reference_into_v3() -> None:
    document = as_json(found())
    assert b"#/components/" not in document
    decoded = msgspec.json.decode(document)
    assert (decoded["swagger"], decoded["paths"]) == ("2.0", {})
    pod = decoded["definitions"][POD]
    assert pod["x-kubernetes-group-version-kind"] == [{"group": "", "version": "v1", "kind": "Pod"}]
    assert pod["properties"]["spec"]["$ref"] == "#/definitions/io.k8s.api.core.v1.PodSpec"
    assert pod["properties"]["spec"]["description"]


def test_what_v2_cannot_say_is_left_out() -> None:
    quantity = {"oneOf": [{"type": "string"}, {"type": "number"}]}
    assert converted(quantity) == {"type": "string"}
    assert converted({"type": "array", "items": {"nullable": True, "anyOf": [{}]}}) == {"type": "array", "items": {}}
    assert converted({"type": "object", "additionalProperties": True}) == {
        "type": "object",
        "additionalProperties": True,
    }


def test_the_protobuf_form_names_each_definition_once() -> None:
    wanted = found()
    document = dict(fields(as_protobuf(wanted)))
    assert document[1] == b"2.0"
    inner = document[9]
    assert isinstance(inner, bytes)
    named = [value for _, value in fields(inner)]
    names = [dict(fields(each))[1] for each in named if isinstance(each, bytes)]
    assert names == [name.encode() for name in wanted]
