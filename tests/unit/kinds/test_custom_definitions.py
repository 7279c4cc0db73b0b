"""Definitions of custom resources: what is refused, who gets a name, and the rows that come of it."""

import copy
import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.apiserver.api.stored import Stored, encode_object, view
from actors.apiserver.custom.controller import names_by_group
from actors.apiserver.table import TABLE
from protocols.kinds.check.causes import Cause
from protocols.kinds.custom.definitions.definition import CLEANUP, read_definition
from protocols.kinds.custom.definitions.definitions import DefinitionStrategy
from protocols.kinds.custom.definitions.names import ObservedDefinition, new_status
from protocols.kinds.custom.definitions.warnings import OF_SET
from protocols.kinds.custom.serving.kind import priority
from protocols.kinds.custom.serving.resources import resources_of
from protocols.kinds.shapes.clean import WrongType

TEXT = {"type": "string"}
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"spec": {"type": "object"}}}


def definition(plural: str = "as", **changes: Any) -> dict[str, Any]:
    names = {"plural": plural, "kind": plural.upper(), **changes.pop("names", {})}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": copy.deepcopy(SCHEMA)}}
    version |= changes.pop("version", {})
    spec = {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version], **changes}
    made = {
        "kind": "CustomResourceDefinition",
        "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": f"{plural}.{spec['group']}", "generation": 1},
        "spec": spec,
    }
    DefinitionStrategy().default(made)
    return made


def created(made: dict[str, Any]) -> list[Cause]:
    DefinitionStrategy().prepare_create(made)
    return DefinitionStrategy().validate_create(made)


def faults(**changes: Any) -> list[str]:
    return [f"{c.field}: {c.message}" for c in created(definition(**changes))]


def schema(**parts: Any) -> dict[str, Any]:
    return {"version": {"schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": parts}}}}}


ROOT = "spec.validation.openAPIV3Schema"
"""Where upstream tells of what all versions have in common."""
SPEC = f"{ROOT}.properties[spec]"


MANY = {name: {"type": "string"} for name in "abcdefghi"}
MANY_SELECTABLE = schema(type="object", properties=MANY)
MANY_SELECTABLE["version"]["selectableFields"] = [{"jsonPath": f".spec.{name}"} for name in MANY]


def root(**parts: Any) -> dict[str, Any]:
    """Of a version with a status of its own."""
    return {"version": {"subresources": {"status": {}}, "schema": {"openAPIV3Schema": {**SCHEMA, **parts}}}}


def junctor(part: dict[str, Any]) -> dict[str, Any]:
    return {"version": {"schema": {"openAPIV3Schema": {**SCHEMA, "anyOf": [part]}}}}


def keyed(*keys: str) -> dict[str, Any]:
    fields = {"a": {"type": "string"}, "n": {"type": "string", "nullable": True}}
    items = {"type": "object", "required": ["a", "n"], "properties": fields}
    more = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}
    return schema(type="array", items=items, **more)


@pytest.mark.parametrize("word", ["items", "additionalProperties"])
def test_validate_wrong_type_below_a_union_is_a_bad_request(word: str) -> None:
    part = {"type": "object", "odd": 1, "properties": 5}
    with pytest.raises(WrongType, match="cannot unmarshal number"):
        faults(**schema(type="array" if word == "items" else "object", **{word: part}))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"group": "nodots"}, "should be a domain with at least one dot"),
        ({"scope": "Odd"}, 'spec.scope: Unsupported value: "Odd": supported values: "Cluster", "Namespaced"'),
        ({"conversion": {"strategy": "Webhook"}}, 'strategy: Invalid value: "Webhook": not supported'),
        ({"preserveUnknownFields": True}, "spec.preserveUnknownFields: Invalid value: true: cannot set to true"),
        ({"versions": []}, "must have exactly one version marked as storage version"),
        ({"version": {"name": "V1"}}, 'spec.versions[0].name: Invalid value: "V1"'),
        ({"version": {"schema": None}}, "spec.versions[0].schema.openAPIV3Schema: Required value"),
        ({"group": "a.k8s.io"}, "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups"),
        (schema(), f"{SPEC}.type: Required value: must not be empty for specified object fields"),
        (schema(type="array"), f"{SPEC}.items: Required value: must be specified"),
        (schema(type="odd"), f'{SPEC}.type: Unsupported value: "odd"'),
        (schema(type="string", pattern="("), "must be a valid regular expression, but isn't: error parsing regexp"),
        (schema(type="array", items={"type": "string"}, uniqueItems=True), "uniqueItems cannot be set to true"),
        (schema(type="object", properties={"a": {"$ref": "#/x", "type": "string"}}), "$ref is not supported"),
        (schema(type="string", **{"x-kubernetes-validations": [{"rule": "self"}]}), "must evaluate to a bool"),
        (schema(type="integer", default="a"), f'{SPEC}.default: Invalid value: "string"'),
        (
            schema(type="object", default={"a": 1}),
            f'{SPEC}.default: Invalid value: {{"a":1}}: must not have unknown fields',
        ),
        (
            schema(type="array", items={"type": "object", "properties": {"a": TEXT}}, default=[{"b": 1}]),
            f'{SPEC}.default: Invalid value: [{{"b":1}}]: must not have unknown fields',
        ),
        (
            schema(type="object", properties={"a": TEXT}, default={"kind": "b"}),
            f'{SPEC}.default: Invalid value: {{"kind":"b"}}: must not have unknown fields',
        ),
        (
            schema(type="object", allOf=[{"type": "object"}]),
            f"{SPEC}.allOf[0].type: Forbidden: must be empty to be structural",
        ),
        (schema(type="object", allOf=[{"title": "t"}]), f"{SPEC}.allOf[0].title: Forbidden: must be empty to be"),
        (schema(type="object", **{"not": {"nullable": True}}), f"{SPEC}.not.nullable: Forbidden: must be false to be"),
        (
            junctor({"properties": {"z": {}}}),
            f"{ROOT}.properties[z]: Required value: because it is defined in {ROOT}.anyOf[0].properties[z]",
        ),
        (
            junctor({"properties": {"spec": {"properties": {"z": {}}}}}),
            f"{SPEC}.properties[z]: Required value: because it is defined in {ROOT}.anyOf[0].properties[spec]"
            ".properties[z]",
        ),
        (
            junctor({"properties": {"spec": {"items": {"minimum": 1}}}}),
            f"{SPEC}.items: Required value: because it is defined in {ROOT}.anyOf[0].properties[spec].items",
        ),
        ({"versions": []}, "status.storedVersions: Invalid value: []: must have at least one stored version"),
        ({"conversion": {}}, "spec.conversion.strategy: Required value"),
        ({"names": {"kind": ""}}, "spec.names.listKind: Required value"),
        ({"version": {"name": "V1"}}, 'spec.version: Invalid value: "V1"'),
        (schema(type="array", items=5), f"{SPEC}.items: Required value: must be specified"),
        (schema(type="array", items=[{}]), f"{SPEC}.items: Forbidden: items must be a schema object and not an array"),
        (schema(type="odd", default="a"), f"{SPEC}.default: Invalid value"),
        (schema(type="odd", **{"x-kubernetes-embedded-resource": True}), f"{SPEC}.type: Invalid value: "),
        (
            schema(type="array", **{"x-kubernetes-list-type": "map"}),
            f"{SPEC}.items: Required value: must have a schema",
        ),
        (
            schema(type="object", default={"a": 1}, properties={"a": TEXT}),
            f"{SPEC}.default.a: Invalid value",
        ),
        (
            {"version": {"schema": None, "selectableFields": [{"jsonPath": ".spec"}]}},
            "spec.selectableFields: Invalid value",
        ),
        (schema(type="array", items={"type": "string"}, **{"x-kubernetes-list-type": "map"}), "must not be empty if"),
        (
            {"version": {"additionalPrinterColumns": [{"name": "A", "type": "x", "jsonPath": "spec"}]}},
            "must be one of boolean,date",
        ),
        (
            {"version": {"additionalPrinterColumns": [{"name": "A", "type": "date", "jsonPath": "spec"}]}},
            "starting with .",
        ),
        ({"version": {"selectableFields": [{"jsonPath": ".spec"}]}}, "must point to a field of type string, boolean"),
        (
            {"version": {"selectableFields": [{"jsonPath": ".spec.a"}]}},
            'selectableFields[0].jsonPath: Invalid value: ".spec.a": is an invalid path: does not refer',
        ),
        (
            {"version": {"selectableFields": [{"jsonPath": "spec"}]}},
            "is an invalid path: expected [ or . but got: spec",
        ),
        (
            {"version": {"selectableFields": [{"jsonPath": ".s['a']"}]}},
            "is an invalid path: array notation is not allowed",
        ),
        (MANY_SELECTABLE, "spec.selectableFields: Too many: 9: must have at most 8 items"),
        (
            {"version": {"deprecationWarning": "old"}},
            'spec.versions[0].deprecationWarning: Invalid value: "old": can only be set for deprecated versions',
        ),
        (
            {"version": {"deprecated": True, "deprecationWarning": "é\n"}},
            "must only contain printable UTF-8 characters; non-printable character found at index 2",
        ),
        ({"version": {"deprecated": True, "deprecationWarning": "x" * 257}}, "must be <= 256 characters long"),
        (
            {"names": {"kind": "As", "listKind": "As"}},
            'spec.names.listKind: Invalid value: "As": kind and listKind may not be the same',
        ),
        (
            {"names": {"kind": "A_s"}},
            'spec.names.kind: Invalid value: "A_s": may have mixed case, but should otherwise match: a DNS-1035 label',
        ),
        ({"names": {"shortNames": ["1a"]}}, 'spec.names.shortNames[0]: Invalid value: "1a": a DNS-1035 label must'),
        (
            {"version": {"additionalPrinterColumns": [{"name": "A"}]}},
            "spec.additionalPrinterColumns[0].type: Required value: must be one of boolean,date,integer,number,string",
        ),
        (
            {"version": {"additionalPrinterColumns": [{"name": "A", "type": "date"}]}},
            "spec.additionalPrinterColumns[0].JSONPath: Required value",
        ),
        (
            root(anyOf=[{"required": ["spec"]}]),
            "fields are allowed at the root of the schema if the status subresource",
        ),
        (
            root(properties={"metadata": {"type": "object", "properties": {"name": {**TEXT, "default": "x"}}}}),
            f"{ROOT}.properties[metadata].properties[name].default: Forbidden: must not be set in top-level metadata",
        ),
        (
            root(properties={"kind": {**TEXT, "default": "x"}}),
            f"{ROOT}.properties[kind].default: Forbidden: must not be set in top-level kind",
        ),
        (root(nullable=True), f"{ROOT}.nullable: Forbidden: nullable cannot be true at the root"),
        (schema(type="null"), f"{SPEC}.type: Forbidden: type cannot be set to null, use nullable as an alternative"),
        (schema(type="object", id="x"), f"{SPEC}.id: Forbidden: id is not supported"),
        (
            schema(type="object", **{"x-kubernetes-embedded-resource": True}),
            f"{SPEC}.properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without",
        ),
        (
            schema(type="array", items={"type": "object"}, **{"x-kubernetes-list-type": "set"}),
            f"{SPEC}.items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list",
        ),
        (
            schema(type="array", items={"type": "string", "nullable": True}, **{"x-kubernetes-list-type": "set"}),
            f"{SPEC}.items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is set",
        ),
        (keyed("a", "a"), f'{SPEC}.x-kubernetes-list-map-keys: Invalid value: ["a","a"]: must not contain duplicate'),
        (keyed("b"), f'{SPEC}.x-kubernetes-list-map-keys: Invalid value: ["b"]: entries must all be names of item'),
        (keyed("n"), f"{SPEC}.items.properties[n].nullable: Forbidden: this property is in x-kubernetes-list-map-keys"),
        (
            {"version": {"subresources": {"scale": {"specReplicasPath": ".spec.n"}}}},
            "statusReplicasPath: Required value",
        ),
    ],
)
def test_what_is_refused(changes: dict[str, Any], told: str) -> None:
    assert any(told in fault for fault in faults(**changes)), faults(**changes)


def test_what_upstream_lets_in() -> None:
    assert faults(**schema(type="object", additionalProperties=False)) == []
    assert faults(**schema(type="object", additionalProperties=True, properties={"a": {"type": "string"}})) == []
    assert (
        faults(**schema(type="object", properties={"a": {"type": "string", "x-kubernetes-int-or-string": True}})) == []
    )
    assert faults(**schema(type="object", anyOf=[{"properties": {"z": {}}}])) == [], "only the root's junctors count"
    either = [{"type": "integer"}, {"type": "string"}]
    assert faults(**schema(anyOf=either, **{"x-kubernetes-preserve-unknown-fields": True})) == []
    assert faults(**schema(allOf=[{"anyOf": either, "enum": [1]}], **{"x-kubernetes-int-or-string": True})) == []
    named = schema(type="object", properties={"a": TEXT})["version"]["schema"]["openAPIV3Schema"]["properties"]
    own = {"schema": {"openAPIV3Schema": {"type": "object", "properties": {"metadatum": named["spec"]}}}}
    assert faults(version={**own, "selectableFields": [{"jsonPath": ".metadatum.a"}]}) == []
    assert faults(**root(description="x", required=["spec"], **{"x-kubernetes-preserve-unknown-fields": True})) == []
    assert faults(group="a.k8s.io", **{"conversion": {"strategy": "None", "webhook": {}}})[0].startswith(
        "metadata.annot"
    )


def test_errors_name_the_version_that_differs() -> None:
    made = definition()
    second = {**copy.deepcopy(made["spec"]["versions"][0]), "name": "v2", "storage": False}
    second["schema"]["openAPIV3Schema"]["properties"]["spec"]["type"] = "array"
    made["spec"]["versions"].append(second)
    [cause] = created(made)
    assert cause.field == "spec.versions[1].schema.openAPIV3Schema.properties[spec].items"


def test_unrecognized_formats_give_one_warning() -> None:
    tags = {"type": "array", "items": {"type": "array", "items": TEXT}, "x-kubernetes-list-type": "set"}
    fields = {"a": {**TEXT, "format": "odd"}, "b": {"type": "integer", "format": "uri"}, "tags": tags}
    old = definition(**schema(type="object", properties=fields))
    assert created(old) == []
    told = DefinitionStrategy().warnings(old, None)
    assert told[:2] == ['unrecognized format "odd"', 'unrecognized format "uri"']
    assert told[2:] == [OF_SET.format("array")]
    new = copy.deepcopy(old)
    new["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["c"] = {**TEXT, "format": "new"}
    assert DefinitionStrategy().warnings(new, old) == ['unrecognized format "new"']
    assert DefinitionStrategy().warnings(definition(), None) == []


def test_what_an_older_server_let_in_may_stay() -> None:
    version = keyed("n")["version"] | {"deprecationWarning": "x"}
    old = definition(version=version)
    old["status"] = {"storedVersions": ["v1"]}
    assert len(DefinitionStrategy().validate_create(old)) == 2
    new = copy.deepcopy(old)
    new["spec"]["names"]["shortNames"] = ["x"]
    assert DefinitionStrategy().validate_update(new, old) == []
    new["spec"]["names"]["shortNames"] = ["1"]
    assert [cause.field for cause in DefinitionStrategy().validate_update(new, old)] == ["spec.names.shortNames[0]"]


def test_an_approval_that_was_missing_may_stay_so() -> None:
    old = definition(group="a.k8s.io")
    old["status"] = {"storedVersions": ["v1"]}
    new = copy.deepcopy(old)
    new["spec"]["names"]["shortNames"] = ["x"]
    assert DefinitionStrategy().validate_update(new, old) == []
    new["metadata"]["annotations"] = {"api-approved.kubernetes.io": "ftp:x"}
    [cause] = DefinitionStrategy().validate_update(new, old)
    assert 'with either a URL or a reason starting with "unapproved", see https://' in cause.message
    approved = {"api-approved.kubernetes.io": "https://example.com/1"}
    old["metadata"]["annotations"], new["metadata"]["annotations"], new["spec"] = approved, {}, old["spec"]
    [cause] = DefinitionStrategy().validate_update(new, old)
    assert cause.message.startswith("Required value: protected groups must have approval annotation")


def test_a_sound_definition_and_nulls_in_it() -> None:
    assert faults() == []
    assert faults(**schema(type="object", properties={"a": {"type": "string", "pattern": None}}, items=None)) == []
    assert faults(**schema(type="object", properties={"a": None})) != []


def test_what_an_update_may_not_touch() -> None:
    strategy = DefinitionStrategy()
    old = definition()
    old["status"] = {"storedVersions": ["v1"], "conditions": [{"type": "Established", "status": "True"}]}
    new = copy.deepcopy(old)
    new["spec"]["scope"] = "Namespaced"
    new["spec"]["versions"][0]["name"] = "v2"
    strategy.prepare_update(new, old)
    assert new["status"]["storedVersions"] == ["v1", "v2"]
    assert [cause.field for cause in strategy.validate_update(new, old)] == ["spec.scope", "status.storedVersions[0]"]


@pytest.mark.parametrize(
    ("stored", "says"),
    [
        (["v1"], []),
        ([], ["status.storedVersions: Invalid value: []: must have at least one stored version"]),
        (
            ["v0"],
            [
                'status.storedVersions: Invalid value: ["v0"]: must have the storage version v1',
                'status.storedVersions[0]: Invalid value: "v0": missing from spec.versions; '
                "v0 was previously a storage version, and must remain in spec.versions until a storage migration "
                "ensures no data remains persisted in v0 and removes v0 from status.storedVersions",
            ],
        ),
    ],
)
def test_validation_of_stored_versions(stored: list[str], says: list[str]) -> None:
    old = definition()
    old["status"] = {"storedVersions": ["v1"]}
    new = {**old, "status": {"storedVersions": stored}}
    causes = DefinitionStrategy().validate_status(new, old)
    assert [f"{cause.field}: {cause.message}" for cause in causes] == says


class World:
    """Definitions in a store, and several processes that decide on views of it of any age."""

    def __init__(self, objects: list[dict[str, Any]]) -> None:
        self.history: list[dict[str, tuple[dict[str, Any], int]]] = [{}]
        for obj in objects:
            self.put(obj)

    @property
    def now(self) -> dict[str, tuple[dict[str, Any], int]]:
        return self.history[-1]

    def put(self, obj: dict[str, Any]) -> None:
        self.history.append({**self.now, obj["metadata"]["name"]: (obj, len(self.history))})

    def decide(self, at: int, name: str) -> None:
        """A process that has seen the store up to `at` decides on one definition and stores it, if it may."""
        seen = {key: ObservedDefinition(obj, rv) for key, (obj, rv) in self.history[at].items()}
        one = seen.get(name)
        if one is None:
            return
        status = new_status(one, seen.values(), {})
        if status is not None and self.now[name][1] == one.rv:
            self.put({**one.obj, "status": status})


def names_held(world: World) -> list[str]:
    found = [read_definition(obj) for obj, _ in world.now.values()]
    return [word for each in found if each.established for word in {each.names.kind, each.names.list_kind}]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from("XY"), min_size=2, max_size=4),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3), st.booleans()), max_size=25),
)
def test_no_name_is_ever_given_twice(kinds: list[str], steps: list[tuple[float, int, bool]]) -> None:
    """Whatever each process has seen when it decides, and although definitions are written anew meanwhile."""
    objects = [definition(f"p{n}", names={"kind": kind, "listKind": f"{kind}s"}) for n, kind in enumerate(kinds)]
    world = World(objects)
    for age, number, rewrite in steps:
        name = objects[number % len(objects)]["metadata"]["name"]
        if rewrite:
            world.put(copy.deepcopy(world.now[name][0]))
        world.decide(round(age * (len(world.history) - 1)), name)
        assert len(names_held(world)) == len(set(names_held(world)))
    for _, obj in itertools.product(range(2), objects):
        world.decide(len(world.history) - 1, obj["metadata"]["name"])
    assert {
        read_definition(obj).names.kind for obj, _ in world.now.values() if read_definition(obj).established
    } == set(kinds)


def test_conditions() -> None:
    world = World([definition("as"), definition("bs", names={"shortNames": ["as"]})])
    for name in ("as.example.com", "bs.example.com"):
        world.decide(len(world.history) - 1, name)
    first, second = (world.now[f"{name}.example.com"][0]["status"]["conditions"] for name in ("as", "bs"))
    assert [(each["type"], each["status"], each["reason"]) for each in first] == [
        ("NamesAccepted", "True", "NoConflicts"),
        ("Established", "True", "InitialNamesAccepted"),
    ]
    assert (second[0]["reason"], second[0]["message"]) == ("ShortNamesConflict", '"as" is already in use')
    assert (second[1]["status"], second[1]["reason"]) == ("False", "NotAccepted")


def test_names_of_what_is_built_in_are_taken() -> None:
    built_in = names_by_group(TABLE.built_in)
    one = ObservedDefinition(definition("pods", group="resource.k8s.io", names={"kind": "ResourceClaim"}), 5)
    status = new_status(one, [one], built_in)
    assert status is not None
    assert status["conditions"][0]["reason"] == "ListKindConflict"


def test_condition_of_approval_follows_the_annotation() -> None:
    obj, name = definition(group="a.k8s.io"), "api-approved.kubernetes.io"
    for value, reason in (("unapproved", "UnapprovedAnnotation"), ("https://example.com/1", "ApprovedAnnotation")):
        obj["metadata"]["annotations"] = {name: value}
        one = ObservedDefinition(obj, 1)
        assert not one.settled
        obj["status"] = new_status(one, [one], {})
        assert obj["status"]["conditions"][2]["reason"] == reason
    assert new_status(ObservedDefinition(obj, 1), [], {}) is None


def established(**changes: Any) -> Any:
    obj = definition(**changes)
    obj["status"] = new_status(ObservedDefinition(obj, 1), [], {})
    return read_definition(obj)


def test_rows_of_versions_in_discoverys_order() -> None:
    versions = [
        {"name": name, "served": name != "v3", "storage": name == "v1", "schema": {"openAPIV3Schema": SCHEMA}}
        for name in ("v1alpha1", "v1", "v3", "v2beta2", "other", "v2")
    ]
    rows = resources_of(established(versions=versions))
    assert [row.version for row in rows] == ["v2", "v1", "v2beta2", "v1alpha1", "other"]
    assert len({row.store for row in rows}) == 1
    assert sorted(["v1", "v10", "v2", "v1beta1", "v1alpha2", "x"], key=priority)[:3] == ["v10", "v2", "v1"]


def test_a_deprecated_version_warns_of_a_newer_one() -> None:
    names = ("v1beta1", "v1", "v2alpha1", "v2", "v3")
    versions = [
        {
            "name": name, "served": name != "v3", "storage": name == "v1", "schema": {"openAPIV3Schema": SCHEMA},
            "deprecated": name in ("v1beta1", "v2"), **({"deprecationWarning": "gone soon"} if name == "v2" else {}),
        }
        for name in names
    ]  # fmt: skip
    told = {row.version: row.custom.warning for row in resources_of(established(versions=versions)) if row.custom}
    wanted = {"v1beta1": "example.com/v1beta1 AS is deprecated; use example.com/v1 AS", "v2": "gone soon"}
    assert {version: warning for version, warning in told.items() if warning} == wanted


def test_a_version_shows_what_is_stored_with_its_own_name_and_fields() -> None:
    colors = {"new": TEXT, "color": {**TEXT, "default": "red"}}
    sized = {"type": "object", "properties": {"size": {"type": "integer"}, **colors}}
    versions = [
        {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {"size": {"type": "integer", "default": 3}, "old": {"type": "string"}},
                }
            },
        },
        {"name": "v2", "served": True, "storage": False, "schema": {"openAPIV3Schema": sized}},
    ]
    first, second = sorted(resources_of(established(versions=versions)), key=lambda row: row.version)
    stored = Stored(
        "a", 7, encode_object({"kind": "AS", "apiVersion": "example.com/v1", "metadata": {"name": "a"}, "old": "x"})
    )
    assert view(first, stored) is stored
    shown = view(second, stored).obj
    assert {**shown, "metadata": {}} == {"kind": "AS", "apiVersion": "example.com/v2", "metadata": {}, "size": 3}, (
        "the defaults are those of the stored version"
    )
    assert shown["metadata"]["resourceVersion"] == "7"
    assert view(second, stored) is view(second, stored)
    written = {key: value for key, value in shown.items() if key != "size"} | {"new": "x"}
    kept = second.converter.to_stored(written)
    assert (kept["apiVersion"], kept["size"], "new" in kept) == ("example.com/v1", 3, False), "v1 is what is stored"
    assert not second.converter.is_outdated(stored.raw)
    assert first.shape is not None


def test_deletion_waits_for_the_objects() -> None:
    obj = definition()
    DefinitionStrategy().prepare_delete(obj)
    assert obj["metadata"]["finalizers"] == [CLEANUP]
    DefinitionStrategy().prepare_delete(obj)
    assert obj["metadata"]["finalizers"] == [CLEANUP]
