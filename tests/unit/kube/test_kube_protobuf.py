import base64
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.kinds.fields import DOMAINS, packages
from protocols.kube.protobuf import (
    MAGIC,
    KindUnknown,
    ProtobufInvalid,
    decode_object,
    encode_list,
    encode_object,
    event_frame,
)
from protocols.kube.protobuf.envelope import DEPTH_LIMIT, VALUE_LIMIT, decode_message, encode_message
from protocols.kube.protobuf.table import kinds_of, message_of, messages
from protocols.kube.protobuf.types import INLINE, LIST, MAP, ONE, SCALARS, Leaf, Message, WireField
from protocols.kube.protobuf.values import UNIONS
from protocols.kube.protobuf.values import VALUES as MESSAGES
from protocols.wire.protobuf import delimited

TEXT = st.text(max_size=6)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TIMES = st.datetimes().map(lambda t: t.isoformat(timespec="seconds") + "Z").filter(lambda t: not t.startswith("0001"))
MICRO = st.datetimes().map(lambda t: t.isoformat(timespec="microseconds") + "Z").filter(lambda t: t[:4] != "0001")
JSON = st.dictionaries(TEXT, st.one_of(INT32, TEXT, st.booleans(), st.lists(INT32, max_size=2)), max_size=2)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "str": TEXT,
    "int32": INT32,
    "int64": INT64,
    "bool": st.booleans(),
    "double": st.one_of(INT32, st.floats(allow_nan=False, allow_infinity=False).filter(lambda n: not n.is_integer())),
    "bytes": st.binary(max_size=6).map(lambda raw: base64.b64encode(raw).decode()),
    "time": TIMES,
    "microtime": MICRO,
    "quantity": st.sampled_from(["0", "1", "100m", "2Gi"]),
    "int-or-string": st.one_of(INT32, TEXT),
    "strings": st.lists(TEXT, max_size=2),
    "any": JSON,
}
PLAIN_GROUPS = ("apps", "autoscaling", "batch", "policy")


def version_of(package: str) -> str:
    group, _, version = package.partition(".")
    if group == "core":
        return version
    return f"{group if group in PLAIN_GROUPS else DOMAINS.get(group, f'{group}.k8s.io')}/{version}"


TOPS = [(version_of(package), kind) for package in packages() for kind in sorted(kinds_of(package))]
POD = ("v1", "Pod")


def value_of(type: Leaf | Message, draw: st.DrawFn, depth: int) -> Any:
    if isinstance(type, Leaf):
        return draw(VALUES[next(name for name, leaf in SCALARS.items() if leaf is type)])
    if type.union in UNIONS.values():
        return draw_union(type, draw, depth)
    named = next((name for name, message in MESSAGES.items() if message is type), "")
    return draw(VALUES[named]) if named else draw_message(type, draw, depth - 1)


def draw_union(message: Message, draw: st.DrawFn, depth: int) -> Any:
    props = next(field.type for field in message.fields.values() if field.name == "schema")
    schema = draw_message(props, draw, depth - 1)
    other: dict[str, Any] = {"Array": [schema], "Bool": draw(st.booleans()), "StringArray": ["a"]}
    return draw(st.sampled_from([schema, other[message.name.rpartition("Or")[2]]]))


def draw_message(message: Message, draw: st.DrawFn, depth: int) -> dict[str, Any]:
    """An object as Go would write it: no empty lists or maps, no zero where omitempty drops it."""
    out: dict[str, Any] = {}
    some = [field for field in message.fields.values() if draw(st.booleans())] if depth else []
    for field in some:
        if field.shape == INLINE:
            out.update(draw_message(field.type, draw, depth))
        elif field.shape == LIST:
            out[field.name] = [value_of(field.type, draw, depth) for _ in range(draw(st.integers(1, 2)))]
        elif field.shape == MAP:
            keys = draw(st.lists(TEXT, min_size=1, max_size=2, unique=True))
            out[field.name] = {key: value_of(field.type.fields[2].type, draw, depth) for key in keys}
        else:
            value = value_of(field.type, draw, depth)
            if value or field.keep_zero or field.is_merged:
                out[field.name] = value
    return out


@st.composite
def objects(draw: st.DrawFn) -> dict[str, Any]:
    version, kind = draw(st.sampled_from([*TOPS, ("v1", "DeleteOptions"), ("v1", "Status"), ("v1", "PodList")]))
    return {**draw_message(message_of(version, kind), draw, 4), "apiVersion": version, "kind": kind}


@given(objects())
def test_what_is_written_is_read_again(obj: dict[str, Any]) -> None:
    assert decode_object(encode_object(obj)) == obj


@given(st.sampled_from(sorted(messages())), st.binary(max_size=200))
def test_garbage_is_only_ever_invalid(name: str, garbage: bytes) -> None:
    with suppress(ProtobufInvalid):
        decode_message(messages()[name], garbage)


@given(objects(), st.data())
def test_a_damaged_body_is_only_ever_invalid(obj: dict[str, Any], data: st.DataObject) -> None:
    body = bytearray(encode_object(obj))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)))
    for damaged in (bytes(body), bytes(body[:cut])):
        with suppress(ProtobufInvalid, KindUnknown):
            decode_object(damaged)


@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status", "items", "data"]), st.one_of(JSON, INT64, TEXT)))
def test_an_object_of_the_wrong_shape_can_be_written(wrong: dict[str, Any]) -> None:
    for version, kind in TOPS:
        decode_object(encode_object({**wrong, "apiVersion": version, "kind": kind}))


def test_object_meta() -> None:
    wire = bytes.fromhex(
        "0a01 61 12 00 3800 42 08 08 80c6b5a106 1000 5000 5a06 0a01 6b 1201 76 7202 6678".replace(" ", "")
    )
    assert decode_message(messages()["meta.v1.ObjectMeta"], wire) == {
        "name": "a",
        "creationTimestamp": "2023-04-05T12:01:04Z",
        "deletionGracePeriodSeconds": 0,
        "labels": {"k": "v"},
        "finalizers": ["fx"],
    }


VALUE_VECTORS = [
    ("time", "1970-01-01T00:00:01Z", "0801 1000"),
    ("time", "1969-12-31T23:59:59Z", "08ffffffffffffffffff01 1000"),
    ("microtime", "1970-01-01T00:00:01.000002Z", "0801 10d00f"),
    ("quantity", "1Gi", "0a03 314769"),
    ("int-or-string", 80, "0800 1050 1a00"),
    ("int-or-string", "http", "0801 1000 1a04 68747470"),
    ("strings", ["a", ""], "0a01 61 0a00"),
    ("any", {"a": 1}, "0a07 7b2261223a317d"),
]


@pytest.mark.parametrize(("name", "value", "wire"), VALUE_VECTORS)
def test_values_byte_for_byte(name: str, value: Any, wire: str) -> None:
    raw = bytes.fromhex(wire.replace(" ", ""))
    assert read_alone(name, raw) == value
    assert encode_message(alone(name), {"of": value}) == delimited(1, raw)


def alone(name: str) -> Message:
    """A message whose one field is such a value."""
    return Message("alone", {1: WireField(1, "of", ONE, MESSAGES[name], keep_zero=True)})


def read_alone(name: str, raw: bytes) -> Any:
    return decode_message(alone(name), delimited(1, raw)).get("of")


def test_unset_values() -> None:
    assert read_alone("time", b"") is None
    assert read_alone("microtime", b"") is None
    assert read_alone("any", b"") is None
    assert read_alone("quantity", b"") == "0"
    assert read_alone("int-or-string", b"") == 0


@pytest.mark.parametrize(
    ("name", "wire", "complaint"),
    [
        ("time", "0a00", "wrong wire type 2 for field seconds of Time"),
        ("quantity", "0a00", "a quantity is empty"),
        ("quantity", "0801", "wrong wire type 0 for field string of Quantity"),
        ("int-or-string", "0802", "2 is neither a number nor a string"),
        ("any", "0a017b", "embedded JSON is broken"),
    ],
)
def test_broken_value_is_named(name: str, wire: str, complaint: str) -> None:
    with pytest.raises(ProtobufInvalid, match=complaint):
        read_alone(name, bytes.fromhex(wire))


KUBECTL_BODIES = [
    (
        "azhzAAoTCgJ2MRINUmVzb3VyY2VRdW90YRI9ChEKAXESABoAIgAqADIAOABCABImCgsKBHBvZHMSAwoBMgoXCgxyZXF1ZXN0cy5jcHUSBwoF"
        "MTUwMG0aABoAIgA=",
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "status": {}}
        | {"spec": {"hard": {"pods": "2", "requests.cpu": "1500m"}}},
    ),
    (
        "azhzAAogCglwb2xpY3kvdjESE1BvZERpc3J1cHRpb25CdWRnZXQSOgoRCgFiEgAaACIAKgAyADgAQgASGQoJCAEQABoDNTAlEgwKCgoDYXBw"
        "EgN3ZWIaCggAGAAgACgAMAAaACIA",
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}}
        | {"spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}}}
        | {"status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}},
    ),
    (
        "azhzAAoNCgJ2MRIHU2VydmljZRJnChsKAW4SABoAIgAqADIAOABCAFoICgNhcHASAW4SRAogCgc4MC1odHRwEgNUQ1AYUCIKCAEQABoEaHR0"
        "cCiw6gESCAoDYXBwEgFuGgAiCE5vZGVQb3J0OgBCAFIAWgBgAGgAGgIKABoAIgA=",
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "n", "labels": {"app": "n"}}}
        | {
            "spec": {
                "type": "NodePort",
                "selector": {"app": "n"},
                "ports": [
                    {"name": "80-http", "protocol": "TCP", "port": 80, "targetPort": "http", "nodePort": 30000},
                ],
            },
            "status": {"loadBalancer": {}},
        },
    ),
    (
        "azhzAAolChRzY2hlZHVsaW5nLms4cy5pby92MRINUHJpb3JpdHlDbGFzcxIpChEKAXASABoAIgAqADIAOABCABD///////////8BGAAiACoF"
        "TmV2ZXIaACIA",
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "p"}}
        | {"value": -1, "preemptionPolicy": "Never"},
    ),
]
"""Bodies that kubectl 1.37 sent for `create quota`, `pdb`, `service nodeport` and `priorityclass`."""


@pytest.mark.parametrize(("body", "obj"), KUBECTL_BODIES)
def test_bodies_of_kubectl(body: str, obj: dict[str, Any]) -> None:
    assert decode_object(base64.b64decode(body)) == obj
    assert decode_object(encode_object(obj)) == obj


def test_map_keeps_key_of_unset_time() -> None:
    status = messages()["policy.v1.PodDisruptionBudgetStatus"]
    wire = encode_message(status, {"disruptedPods": {"p": None}})
    assert wire == bytes.fromhex("1205 0a0170 1200")
    assert decode_message(status, wire) == {"disruptedPods": {"p": None}}


def test_map_leaves_out_values_of_other_types() -> None:
    meta = messages()["meta.v1.ObjectMeta"]
    assert encode_message(meta, {"labels": {"b": "2", "a": "", "c": 3}}) == bytes.fromhex(
        "5a05 0a0161 1200 5a06 0a0162 120132"
    )
    assert decode_message(meta, bytes.fromhex("5a00 5a03 0a0161")) == {"labels": {"": "", "a": ""}}


def test_the_envelope() -> None:
    wire = MAGIC + bytes.fromhex("0a0f0a02763112094e616d65737061636512050a030a01781a002200")
    obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}
    assert decode_object(wire) == obj
    assert encode_object(obj) == wire
    assert event_frame("ADDED", b"ab") == bytes.fromhex("0000000d0a05414444454412040a026162")


@given(st.lists(objects(), max_size=3))
def test_list_in_pieces_is_the_list_in_one(items: list[dict[str, Any]]) -> None:
    head = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}}
    assert b"".join(encode_list(head, "items", items)) == encode_object({**head, "items": items})


def test_a_pointer_to_zero_is_a_value_and_an_empty_string_is_none() -> None:
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "orphanDependents": False}
    assert decode_object(encode_object(options)) == options
    spec = messages()["core.v1.PodSpec"]
    wire = encode_message(spec, {"hostNetwork": False, "nodeName": "", "automountServiceAccountToken": False})
    assert decode_message(spec, wire) == {"automountServiceAccountToken": False}


def test_fields_of_an_embedded_struct_stand_in_the_parent() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {},
        "spec": {
            "volumes": [{"name": "v", "configMap": {"name": "c", "defaultMode": 420}}],
            "containers": [{"name": "c", "livenessProbe": {"exec": {"command": ["x"]}, "periodSeconds": 3}}],
        },
    }
    assert decode_object(encode_object(pod)) == pod


def test_packed_numbers_and_merged_messages_and_unknown_groups() -> None:
    security = messages()["core.v1.PodSecurityContext"]
    assert decode_message(security, bytes.fromhex("2203010203")) == {"supplementalGroups": [1, 2, 3]}
    twice = encode_message(message_of(*POD), {"metadata": {"name": "a"}}) + bytes.fromhex("0a031a016e")
    assert decode_message(message_of(*POD), twice) == {"metadata": {"name": "a", "namespace": "n"}}
    assert decode_message(message_of(*POD), bytes.fromhex("a306a306a406a4069d0600000000")) == {}


def test_nothing_is_kept_of_a_version_that_a_client_made_up() -> None:
    kept = kinds_of.cache_info().currsize
    with pytest.raises(KindUnknown):
        message_of("made-up.example.com/v1", "Pod")
    assert kinds_of.cache_info().currsize == kept


@pytest.mark.parametrize(
    ("wire", "complaint"),
    [
        ("0a05 61", "does not fit"),
        ("0a ffffffffffffffffffffff", "longer than 64 bits"),
        ("00", "illegal field number 0"),
        ("0801", "wrong wire type 0 for field metadata"),
        ("09 0000000000000000", "wrong wire type 1 for field metadata"),
        ("0a03 0a01ff", "not UTF-8"),
        ("0a0a 4208 08ffffffffffff7f", "outside the years"),
        ("a306" * 33, "nested too deep"),
        ("a406", "illegal wire type 4"),
        ("1a00" * (VALUE_LIMIT + 1), "more than"),
    ],
)
def test_what_is_wrong_is_named(wire: str, complaint: str) -> None:
    with pytest.raises(ProtobufInvalid, match=complaint):
        decode_message(message_of(*POD), bytes.fromhex(wire.replace(" ", "")))


@pytest.mark.parametrize("body", [b"", b"{}", MAGIC, MAGIC + b"\x0a\x04\x0a\x02v1", MAGIC + b"\x1a\x01x"])
def test_a_body_without_envelope_or_kind_is_invalid(body: bytes) -> None:
    with pytest.raises(ProtobufInvalid):
        decode_object(body)


def test_kinds_without_numbers_are_distinguished() -> None:
    with pytest.raises(KindUnknown):
        encode_object({"apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourceSlicePatch"})
    with pytest.raises(KindUnknown):
        encode_object({"apiVersion": "apps.example.com/v1", "kind": "Deployment"})


def test_no_message_but_a_schema_contains_itself() -> None:
    def visit(message: Message, above: tuple[str, ...]) -> int:
        if message.name == "apiextensions.v1.JSONSchemaProps":
            return 1
        assert message.name not in above, above
        nested = [field.type for field in message.fields.values() if isinstance(field.type, Message)]
        return 1 + max((visit(inner, (*above, message.name)) for inner in nested), default=0)

    assert max(visit(message_of(*top), ()) for top in TOPS) < 16


DEFINITION = {
    "kind": "CustomResourceDefinition",
    "apiVersion": "apiextensions.k8s.io/v1",
    "metadata": {"name": "toys.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"plural": "toys", "kind": "Toy"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": False,
                "schema": {
                    "openAPIV3Schema": {
                        "$ref": "#/x",
                        "type": "object",
                        "maximum": 0,
                        "multipleOf": 0.5,
                        "default": {"a": [1, None]},
                        "enum": ["a", 1, False],
                        "x-kubernetes-preserve-unknown-fields": False,
                        "properties": {"l": {"type": "array", "items": {"type": "string"}}},
                        "additionalProperties": False,
                        "additionalItems": {"type": "integer"},
                        "items": [{"type": "string"}, {"type": "integer"}],
                        "dependencies": {"a": ["b"], "c": {"type": "string"}},
                        "x-kubernetes-validations": [{"rule": "self > 0", "optionalOldSelf": False}],
                    }
                },
                "subresources": {"status": {}},
            }
        ],
    },
}


def test_a_definition_comes_back_whole() -> None:
    assert decode_object(encode_object(DEFINITION)) == DEFINITION


def test_numbers_of_a_schema_are_doubles() -> None:
    props = messages()["apiextensions.v1.JSONSchemaProps"]
    assert encode_message(props, {"maximum": 1}) == bytes.fromhex("49 000000000000f03f")
    assert decode_message(props, bytes.fromhex("49 000000000000f03f")) == {"maximum": 1}
    for broken in ("49 000000000000f07f", "49 00", "48 01"):
        with pytest.raises(ProtobufInvalid):
            decode_message(props, bytes.fromhex(broken))


def test_a_schema_within_itself_without_end_is_invalid() -> None:
    body = b""
    for _ in range(DEPTH_LIMIT):
        body = delimited(28, body)
    with pytest.raises(ProtobufInvalid, match="nested"):
        decode_message(messages()["apiextensions.v1.JSONSchemaProps"], body)


def test_every_message_has_each_name_and_number_once() -> None:
    for message in messages().values():
        names = [field.name for field in message.fields.values()]
        assert len(names) == len(set(names)), message.name
        assert sorted(message.fields) == list(message.fields), message.name
