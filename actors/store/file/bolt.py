"""Write a file in etcd's database format (bbolt) in one pass: sorted buckets in, pages out; no free pages."""

import struct
from collections.abc import Iterable, Iterator
from typing import BinaryIO, TypeVar

PAGE = 4096
META, FREELIST, LEAF, BRANCH = 0x04, 0x10, 0x02, 0x01
MAGIC, VERSION = 0xED0CDAED, 2
HEADER = struct.Struct("<QHHI")
LEAF_ELEMENT = struct.Struct("<IIII")
BRANCH_ELEMENT = struct.Struct("<IIQ")
META_BODY = struct.Struct("<IIIIQQQQQ")
BUCKET = struct.Struct("<QQ")
BUCKET_FLAG = 1
FIRST_DATA_PAGE = 3
"""Two meta pages and the empty free list come before."""

Pair = tuple[bytes, bytes]
Child = tuple[bytes, int]
"""The first key of a page, and the page."""
Item = TypeVar("Item", Pair, Child)


class BoltWriter:
    """Call `bucket` for each bucket, then `finish`; the file is complete only after that."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._next = FIRST_DATA_PAGE
        self._buckets: list[Pair] = []
        file.write(bytes(FIRST_DATA_PAGE * PAGE))

    def bucket(self, name: bytes, pairs: Iterable[Pair]) -> None:
        """Write pairs, which must be in key order. An empty bucket is omitted: etcd creates it when needed."""
        leaves = [self._leaf(0, group) for group in _groups(pairs)]
        if leaves:
            self._buckets.append((name, BUCKET.pack(self._root(leaves), 0)))

    def _root(self, children: list[Child]) -> int:
        while len(children) > 1:
            children = [self._branch(group) for group in _groups(children)]
        return children[0][1]

    def _leaf(self, flags: int, pairs: list[Pair]) -> Child:
        heads, place = [], LEAF_ELEMENT.size * len(pairs)
        for number, (key, value) in enumerate(pairs):
            heads.append(LEAF_ELEMENT.pack(flags, place - LEAF_ELEMENT.size * number, len(key), len(value)))
            place += len(key) + len(value)
        body = b"".join([*heads, *(part for pair in pairs for part in pair)])
        return pairs[0][0] if pairs else b"", self._page(LEAF, len(pairs), body)

    def _branch(self, children: list[Child]) -> Child:
        heads, place = [], BRANCH_ELEMENT.size * len(children)
        for number, (key, page) in enumerate(children):
            heads.append(BRANCH_ELEMENT.pack(place - BRANCH_ELEMENT.size * number, len(key), page))
            place += len(key)
        body = b"".join([*heads, *(key for key, _ in children)])
        return children[0][0], self._page(BRANCH, len(children), body)

    def _page(self, kind: int, count: int, body: bytes) -> int:
        """Write a page with the overflow pages its body needs; return its number."""
        pages = -(-(HEADER.size + len(body)) // PAGE)
        page, self._next = self._next, self._next + pages
        self._file.write((HEADER.pack(page, kind, count, pages - 1) + body).ljust(pages * PAGE, b"\0"))
        return page

    def finish(self) -> int:
        """Write the list of buckets and the first pages; return the size of the file."""
        _, root = self._leaf(BUCKET_FLAG, sorted(self._buckets))
        self._file.seek(0)
        for number in (0, 1):
            self._file.write((HEADER.pack(number, META, 0, 0) + self._meta(root, number)).ljust(PAGE, b"\0"))
        self._file.write(HEADER.pack(2, FREELIST, 0, 0).ljust(PAGE, b"\0"))
        return self._next * PAGE

    def _meta(self, root: int, transaction: int) -> bytes:
        body = META_BODY.pack(MAGIC, VERSION, PAGE, 0, root, 0, 2, self._next, transaction)
        return body + struct.pack("<Q", _fnv64a(body))


def _groups(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Group items so that each group fits a page; a larger item is a group of its own."""
    group: list[Item] = []
    size = HEADER.size
    for item in items:
        weight = LEAF_ELEMENT.size + len(item[0]) + (len(item[1]) if isinstance(item[1], bytes) else 0)
        if group and size + weight > PAGE:
            yield group
            group, size = [], HEADER.size
        group.append(item)
        size += weight
    if group:
        yield group


def _fnv64a(data: bytes) -> int:
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value
