"""Long lists: their parts joined are the list in every form; labels are read without the rest; gzip where asked for."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from actors.apiserver.api.encoding.negotiate import Form
from actors.apiserver.api.encoding.render import PART_ITEMS, ROW_UNITS, list_parts, render_list, table
from actors.apiserver.api.request.query import ListOptions
from actors.apiserver.api.request.selection import selection
from actors.apiserver.api.request.target import Target
from actors.apiserver.api.stored import Stored, decode_stored
from actors.apiserver.http.connection.responses import takes_gzip
from actors.apiserver.reads import reader as reader_module
from actors.apiserver.reads.metrics import ReadMetrics
from actors.apiserver.reads.reader import Reader, decode_token, encode_token
from actors.apiserver.replica.replica import Replica
from actors.apiserver.storage.storage import Storage, _Page
from actors.apiserver.table import TABLE
from protocols.kinds.custom.definitions.definition import Definition, Names, Version
from protocols.kinds.custom.serving.resources import resources_of
from protocols.kube.protobuf import decode_object
from protocols.kube.protobuf.envelope import PIECE_BYTES
from protocols.messages.objects import STORED, ObjectEvent

CONFIGMAPS = TABLE.of("configmaps")


def stored(name: str, /, **labels: str) -> Stored:
    body = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, "namespace": "ns", "labels": labels}}
    return Stored(f"ns/{name}", 7, msgspec.json.encode({**body, "data": {"a": "b"}}))


@pytest.mark.parametrize("view", ["", "Table", "PartialObjectMetadata"])
@pytest.mark.parametrize("count", [0, 1, PART_ITEMS, 3 * PART_ITEMS])
def test_parts_joined_are_the_list(view: str, count: int) -> None:
    found = [stored(f"c{number}") for number in range(count)]
    parts = list(list_parts(CONFIGMAPS, found, Form(view=view), {"resourceVersion": "9"}))
    assert len(parts) == 1 + count // (PART_ITEMS + 1) or len(parts) == 1 + count // PART_ITEMS
    listed = msgspec.json.decode(b"".join(parts))
    assert listed["metadata"] == {"resourceVersion": "9"}
    assert len(listed["rows" if view == "Table" else "items"]) == count
    assert listed["kind"] == {"": "ConfigMapList", "Table": "Table"}.get(view, "PartialObjectMetadataList")


@pytest.mark.parametrize("form", [Form(), Form(yaml=True)], ids=["json", "yaml"])
def test_item_of_a_list_is_the_object_without_its_kind(form: Form) -> None:
    one = stored("a", on="1")
    listed = yaml.safe_load(b"".join(render_list(CONFIGMAPS, [one, one], form, {})))
    bare = {key: value for key, value in msgspec.json.decode(one.json).items() if key not in ("kind", "apiVersion")}
    assert listed["items"] == [bare, bare]
    assert listed["items"][0]["metadata"]["resourceVersion"] == "7"


def test_row_whose_columns_cost_too_much_has_the_cells_that_fit() -> None:
    paths = [".a", ".l[*]", ".a"]
    columns = tuple({"name": path, "type": "string", "jsonPath": path} for path in paths)
    version = Version("v1", True, True, {"type": "object"}, columns=columns)
    (row,) = resources_of(Definition("ks.a.b", "", 1, "a.b", True, Names(kind="K"), (version,), True, False))
    obj = {"metadata": {"name": "n"}, "a": "x", "l": [[0] * 5] * (2 * ROW_UNITS)}
    shown = table(row, [obj, obj | {"l": []}], Form(view="Table"), {})["rows"]
    assert [each["cells"] for each in shown] == [["n", "x", "[0,0,0,0,0]", "x"], ["n", "x", None, "x"]]
    deep = obj | {"l": [[0] * 5] * ROW_UNITS, "a": ["y" * 100 * ROW_UNITS]}
    (costly,) = table(row, [deep], Form(view="Table"), {})["rows"]
    assert costly["cells"] == ["n", "<invalid>", "<invalid>", "<invalid>"]


@pytest.mark.parametrize(
    ("phase", "conditions"),
    [("Running", None), ("Succeeded", "The pod has completed successfully."), ("Failed", "The pod failed.")],
)
def test_row_of_a_pod_that_is_over_has_a_condition(phase: str, conditions: str | None) -> None:
    (row,) = table(TABLE.of("pods"), [{"metadata": {"name": "p"}, "status": {"phase": phase}}], Form(view="Table"), {})[
        "rows"
    ]
    over = {"type": "Completed", "status": "True", "reason": phase, "message": conditions}
    assert row.get("conditions") == ([over] if conditions else None)


HEAD = b'{"kind":"ConfigMap","apiVersion":"v1",'
WHOLE = HEAD + b'"metadata":{"name":"a"},"data":{"a":"b"}}'


@pytest.mark.parametrize(
    "raw",
    [
        WHOLE,
        HEAD + b'"metadata":{}}',
        HEAD + b'"data":{"metadata":"x"},"metadata":{"name":"a"}}',
        b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}',
        b'{ "metadata": {"name": "a"}, "kind": "ConfigMap", "apiVersion": "v1"}',
    ],
    ids=["ours", "no-metadata", "late-metadata", "version-first", "spaces"],
)
def test_list_shows_each_object_at_its_version_and_retains_no_second_copy(raw: bytes) -> None:
    found = [Stored("ns/a", 7, raw), Stored("ns/b", 8, WHOLE)]
    listed = msgspec.json.decode(b"".join(list_parts(CONFIGMAPS, found, Form(), {})))
    shown = {"kind": "ConfigMap", "apiVersion": "v1"}
    assert [shown | item for item in listed["items"]] == [decode_stored(each.raw, each.rv) for each in found]
    assert not any(each._json or each._obj for each in found)


@pytest.mark.parametrize("view", ["", "PartialObjectMetadata"])
def test_list_in_protobuf_is_the_list_and_retains_no_decoded_object(view: str) -> None:
    found = [stored(f"c{number}", fill="x" * 9000) for number in range(100)]
    pieces = render_list(CONFIGMAPS, found, Form(view=view, protobuf=True), {"resourceVersion": "9"})
    assert len(pieces) > 1
    assert max(map(len, pieces)) < 2 * PIECE_BYTES
    listed = decode_object(b"".join(pieces))
    assert listed["metadata"] == {"resourceVersion": "9"}
    assert len(listed["items"]) == len(found)
    assert not any(each._obj for each in found)


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3))
def test_labels_are_those_of_the_object(labels: dict[str, str]) -> None:
    one = stored("a", **labels)
    assert one.labels == labels == one.obj["metadata"]["labels"]


@pytest.mark.parametrize("raw", [b"{}", b'{"metadata":null}', b'{"metadata":{}}', b'{"metadata":{"labels":null}}'])
def test_no_labels(raw: bytes) -> None:
    assert Stored("a", 1, raw).labels == {}


def test_labels_of_the_wrong_type_are_no_failure() -> None:
    odd = Stored("a", 1, b'{"metadata":{"labels":{"on":1},"name":"a"}}')
    assert not selection(CONFIGMAPS, "on=1", "").matches(odd)


@pytest.mark.parametrize("decoded", [False, True])
@pytest.mark.parametrize(
    ("metadata", "uid", "labels"),
    [
        ({"uid": "u", "labels": {"a": "b"}}, "u", {"a": "b"}),
        ({"labels": {"a": "b"}}, "", {"a": "b"}),
        ({"uid": 7, "labels": {"a": "b"}}, "", {"a": "b"}),
        ({"uid": "u", "labels": {"a": 1}}, "u", {"a": 1}),
        (None, "", {}),
    ],
)
def test_uid_and_labels_are_those_of_the_object(metadata: Any, uid: str, labels: dict[str, Any], decoded: bool) -> None:
    first, second = (Stored("a", 1, msgspec.json.encode({"metadata": metadata})) for _ in range(2))
    if decoded and metadata is not None:
        assert all(each.obj for each in (first, second))
    assert (first.uid, first.labels) == (uid, labels)
    assert (second.labels, second.uid) == (labels, uid)


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("gzip", True),
        ("gzip, deflate", True),
        ("br;q=1.0, GZIP;q=0.8", True),
        ("identity", False),
        ("", False),
        ("gzip;q=0", False),
        ("deflate, gzip; q=0.0", False),
        ("xgzip", False),
    ],
)
def test_who_takes_gzip(header: str, wanted: bool) -> None:
    assert takes_gzip(header) is wanted


@pytest.mark.parametrize("namespace", ["", "ns"])
async def test_list_of_one_name_reads_no_other_object(namespace: str) -> None:
    replica = Replica(CONFIGMAPS)
    objects = [(one.key, ObjectEvent(STORED, one.rv, one.raw)) for one in map(stored, ("a", "b"))]
    replica.on_snapshot(objects, 9)
    reader = Reader(cast(Storage, None), {CONFIGMAPS.store: replica}, ReadMetrics(CollectorRegistry()))
    wanted = selection(CONFIGMAPS, "", "metadata.name=a")
    listing = await reader.list(Target(CONFIGMAPS, "list", namespace), ListOptions(version=0), wanted)
    assert [each.key for each in listing.objects] == ["ns/a"]
    other = replica.objects.get("ns/b")
    assert other is not None
    assert other._obj is None


async def test_first_page_reads_no_more_than_its_limit() -> None:
    replica = Replica(CONFIGMAPS)
    replica.on_snapshot([(one.key, ObjectEvent(STORED, one.rv, one.raw)) for one in map(stored, "abc")], 9)
    replica.objects._by_key.pop("ns/c")  # whoever reads it fails
    reader = Reader(cast(Storage, None), {CONFIGMAPS.store: replica}, ReadMetrics(CollectorRegistry()))
    options = ListOptions(version=9, match="NotOlderThan", limit=2)
    listing = await reader.list(Target(CONFIGMAPS, "list", "ns"), options, selection(CONFIGMAPS, "", ""))
    assert ([each.name for each in listing.objects], listing.remaining) == (["a", "b"], 1)
    assert decode_token(listing.resume).start == "ns/b\0"


async def test_page_of_the_store_is_matched_in_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A continue token and a field selector: 10,000 objects were decoded in one turn, which took 0.4 s."""
    monkeypatch.setattr(reader_module, "TURN_SECONDS", 0.0)
    found = [stored(f"c{number}") for number in range(50)]

    async def page(*_: object) -> _Page:
        return _Page(found, 9, False, len(found))

    reader = Reader(
        cast(Storage, SimpleNamespace(page=page)),
        {CONFIGMAPS.store: Replica(CONFIGMAPS)},
        ReadMetrics(CollectorRegistry()),
    )
    options = ListOptions(resume=encode_token(9, "ns/a"))
    wanted = selection(CONFIGMAPS, "", "metadata.name!=c1")
    listing = asyncio.create_task(reader.list(Target(CONFIGMAPS, "list", "ns"), options, wanted))
    turns = 0
    while not listing.done():
        await asyncio.sleep(0)
        turns += 1
    assert len((await listing).objects) == 49
    assert turns > 40
