"""The tables of schemas: readable, complete for what is served, and lazy."""

import subprocess
import sys

import msgspec
import pytest

from actors.apiserver.table import TABLE
from protocols.kinds.openapi.documents import OpenApi
from protocols.kinds.shapes.descriptions import DESCRIPTIONS, described_types, description
from protocols.kinds.shapes.registry import kind_shape, registry
from protocols.kinds.shapes.shape import Shape


def test_every_served_kind_has_a_shape() -> None:
    shapes = {row.gvr: kind_shape(row.group, row.version, row.kind) for row in TABLE.rows}
    whole = {"apiVersion", "kind", "metadata"}
    assert [gvr for gvr, shape in shapes.items() if shape is None or not whole <= set(shape.fields)] == []


def test_lists_name_their_merge_keys() -> None:
    pod = kind_shape("", "v1", "Pod")
    assert pod is not None
    containers = _at(pod, "spec", "containers")
    assert containers.keys == ("name",)
    assert containers.patch == ("merge", "name")
    assert containers.item is not None
    ports = containers.item.fields["ports"]
    assert ports.keys == ("containerPort", "protocol")
    assert ports.patch == ("merge", "containerPort")
    assert ports.item is not None
    assert ports.item.fields["protocol"].default == "TCP"
    assert _at(pod, "spec", "volumes").patch == ("merge,retainKeys", "name")
    assert _at(pod, "spec", "tolerations").leaf
    assert _at(pod, "spec", "nodeSelector").leaf
    assert _at(pod, "metadata", "finalizers").scalar_set
    assert _at(pod, "metadata", "ownerReferences").item.leaf  # type: ignore[union-attr]  # a list has items


def test_documents_refer_only_to_what_they_contain() -> None:
    for _, body, _ in OpenApi(TABLE).made().values():
        schemas = msgspec.json.decode(body)["components"]["schemas"]
        wanted = {part.split(b'"')[0].decode() for part in body.split(b"#/components/schemas/")[1:]}
        assert wanted <= set(schemas)


def test_descriptions_speak_of_types_and_fields_that_exist() -> None:
    known: dict[str, dict[str, set[str]]] = {}
    for name, struct in registry().structs.items():
        *_, group, _, short = name.split(".")
        for owner in (short, "*"):
            known.setdefault(group, {}).setdefault(owner, set()).update(struct.fields)
            known.setdefault("meta", {}).setdefault("*", set()).update(struct.fields)
    for path in DESCRIPTIONS.glob("*.txt"):
        for name, described in described_types(path.stem).items():
            assert described.fields.keys() <= known[path.stem][name], (path.stem, name)


def test_every_type_and_field_is_described() -> None:
    structs = registry().structs
    fields = [(name, field) for name, struct in structs.items() for field in ("", *struct.fields)]
    assert [field for field in fields if not description(*field)] == []


@pytest.mark.parametrize(
    ("name", "field", "text"),
    [
        ("core.v1.Pod", "spec", "Desired state of the object."),
        ("core.v1.EphemeralContainer", "image", "The image to run."),
        ("core.v1.NodeCondition", "status", "True, False or Unknown."),
        ("core.v1.Taint", "timeAdded", "Time at which the taint was added."),
        ("rbac.v1.Subject", "kind", "User, Group or ServiceAccount."),
    ],
)
def test_fields_are_described_by_their_type_the_one_it_extends_or_all(name: str, field: str, text: str) -> None:
    assert description(f"io.k8s.api.{name}", field) == text


def test_nothing_is_read_at_start() -> None:
    late = "('protocols.kinds.apps.strategies', 'actors.apiserver.writes.admission.policies.session')"
    code = f"import sys, actors.apiserver.actor; print([m for m in sys.modules if m in {late}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"


def _at(shape: Shape, *path: str) -> Shape:
    for step in path:
        child = shape.child(step)
        assert child is not None
        shape = child
    return shape
