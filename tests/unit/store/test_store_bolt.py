"""What the writer of etcd's file format puts in, a reader gets out. etcd itself reads it in the integration tests."""

import io

from hypothesis import given
from hypothesis import strategies as st

from actors.store.file.bolt import (
    BRANCH,
    BRANCH_ELEMENT,
    BUCKET,
    HEADER,
    LEAF,
    LEAF_ELEMENT,
    META_BODY,
    PAGE,
    BoltWriter,
    Pair,
)

SIZES = st.sampled_from([0, 1, 30, 1000, 5000, 20_000])
KEYS = st.sets(st.binary(min_size=1, max_size=20), max_size=40)


def leaf_pairs(data: bytes, page: int) -> list[Pair]:
    """All pairs below a page, in order."""
    start = page * PAGE
    number, kind, count, _ = HEADER.unpack_from(data, start)
    assert number == page
    pairs: list[Pair] = []
    for element in range(count):
        at = start + HEADER.size + 16 * element
        if kind == BRANCH:
            place, size, child = BRANCH_ELEMENT.unpack_from(data, at)
            below = leaf_pairs(data, child)
            assert below[0][0] == data[at + place : at + place + size]
            pairs += below
        else:
            assert kind == LEAF
            _, place, key, value = LEAF_ELEMENT.unpack_from(data, at)
            key_at = at + place
            pairs.append((data[key_at : key_at + key], data[key_at + key : key_at + key + value]))
    return pairs


def read_file(data: bytes) -> dict[bytes, list[Pair]]:
    root, high = META_BODY.unpack_from(data, HEADER.size)[4], META_BODY.unpack_from(data, HEADER.size)[7]
    assert high * PAGE == len(data)
    return {name: leaf_pairs(data, BUCKET.unpack(value)[0]) for name, value in leaf_pairs(data, root)}


def write_file(buckets: dict[bytes, list[Pair]]) -> bytes:
    file = io.BytesIO()
    writer = BoltWriter(file)
    for name, pairs in buckets.items():
        writer.bucket(name, pairs)
    assert writer.finish() == len(file.getvalue())
    return file.getvalue()


@given(st.dictionaries(st.sampled_from([b"key", b"lease", b"meta"]), KEYS), st.data())
def test_bolt_file_written_is_read_back(names: dict[bytes, set[bytes]], data: st.DataObject) -> None:
    buckets = {name: [(key, bytes(data.draw(SIZES))) for key in sorted(keys)] for name, keys in names.items()}
    assert read_file(write_file(buckets)) == {name: pairs for name, pairs in buckets.items() if pairs}


def test_bolt_file_many_keys_has_branch_levels() -> None:
    pairs = [(b"%08d" % number * 20, b"v") for number in range(2000)]
    assert read_file(write_file({b"key": pairs})) == {b"key": pairs}
