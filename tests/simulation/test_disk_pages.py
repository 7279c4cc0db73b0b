"""What a power cut leaves of files and directories, as properties."""

import random

from hypothesis import given
from hypothesis import strategies as st

from tests.simulation.disk.pages import PAGE, SECTOR, Write, apply, settle
from tests.simulation.disk.volume import ROOT, Folder, Leaf, Tree, Volume

CONTENT = st.binary(max_size=3 * PAGE)
SEEDS = st.integers(0, 2**32)
WRITES = st.lists(
    st.tuples(st.integers(0, 4 * PAGE), st.one_of(st.none(), st.binary(min_size=1, max_size=2 * PAGE))), max_size=8
)
FILE = 2


def history(durable: bytes, writes: list[Write]) -> list[bytes]:
    """Return the contents that the file has had."""
    content, contents = bytearray(durable), [durable]
    for write in writes:
        apply(content, [write])
        contents.append(bytes(content))
    return contents


@given(CONTENT, WRITES, SEEDS)
def test_each_sector_is_one_that_was(durable: bytes, writes: list[Write], seed: int) -> None:
    left = settle(durable, writes, random.Random(seed))
    contents = history(durable, writes)
    assert min(map(len, contents)) <= len(left) <= max(map(len, contents))
    for place in range(0, len(left), SECTOR):
        sector = left[place : place + SECTOR]
        known = [content[place : place + SECTOR].ljust(SECTOR, b"\0")[: len(sector)] for content in contents]
        assert sector in [*known, bytes(len(sector))]


@given(CONTENT, st.lists(st.binary(min_size=1, max_size=PAGE), max_size=6), SEEDS)
def test_what_was_synced_outlives_appends(durable: bytes, appended: list[bytes], seed: int) -> None:
    writes: list[Write] = []
    end = len(durable)
    for data in appended:
        writes.append((end, data))
        end += len(data)
    assert settle(durable, writes, random.Random(seed))[: len(durable)] == durable


@given(st.integers(1, 3 * PAGE), st.integers(1, 3 * PAGE), SEEDS)
def test_truncated_content_does_not_mix_with_later(before: int, after: int, seed: int) -> None:
    left = settle(b"a" * before, [(0, None), (0, b"b" * after)], random.Random(seed))
    assert left == b"a" * before or not left.strip(b"\0b")


@given(SEEDS)
def test_every_subset_of_pages_is_drawn(seed: int) -> None:
    old, new = b"a" * 2 * PAGE, b"b" * 2 * PAGE
    chance = random.Random(seed)
    found = {settle(old, [(0, new)], chance)[::PAGE] for _ in range(200)}
    assert found == {b"aa", b"ab", b"ba", b"bb"}


def volume() -> tuple[Volume, Tree]:
    """Return a volume with a file `f`, and its tree."""
    tree: Tree = {ROOT: Folder({"f": FILE}), FILE: Leaf(b"old")}
    return Volume(tree), tree


def outcomes(made: Volume, current: Tree) -> set[tuple[tuple[str, bytes], ...]]:
    """Return all that power cuts leave of a directory."""
    found = set()
    for seed in range(300):
        left = made.cut(current, random.Random(seed))
        top = left[ROOT]
        assert isinstance(top, Folder)
        files = {name: left[number] for name, number in top.entries.items()}
        found.add(tuple((name, node.data) for name, node in files.items() if isinstance(node, Leaf)))
    return found


def test_rename_is_whole_and_lost_without_sync_of_the_directory() -> None:
    made, tree = volume()
    new: Tree = {ROOT: Folder({"f": 3}), 3: Leaf(b"new")}
    made.synced(3, b"new")
    made.last_name_lost(FILE, tree[FILE])
    made.renamed((ROOT, "t"), (ROOT, "f"), 3)
    assert outcomes(made, new) == {(("f", b"old"),), (("f", b"old"), ("t", b"new")), (("f", b"new"),)}
    made.synced_folder(ROOT, {"f": 3})
    assert outcomes(made, new) == {(("f", b"new"),)}


def test_rename_before_sync_of_the_file_leaves_it_empty() -> None:
    made, tree = volume()
    made.last_name_lost(FILE, tree[FILE])
    made.renamed((ROOT, "t"), (ROOT, "f"), 3)
    made.synced_folder(ROOT, {"f": 3})
    assert (("f", b""),) in outcomes(made, {ROOT: Folder({"f": 3}), 3: Leaf(b"new")})


def test_removed_file_comes_back_until_its_directory_is_synced() -> None:
    made, tree = volume()
    made.last_name_lost(FILE, tree[FILE])
    made.removed((ROOT, "f"), FILE)
    assert outcomes(made, {ROOT: Folder({})}) == {(), (("f", b"old"),)}
    made.synced_folder(ROOT, {})
    assert outcomes(made, {ROOT: Folder({})}) == {()}


def test_directory_goes_with_all_that_was_synced_in_it() -> None:
    made, _ = volume()
    current: Tree = {ROOT: Folder({"d": 4, "f": FILE}), FILE: Leaf(b"old"), 4: Folder({"g": 5}), 5: Leaf(b"x")}
    made.synced(5, b"x")
    made.synced_folder(4, {"g": 5})
    found = {frozenset(made.cut(current, random.Random(seed))) for seed in range(50)}
    assert found == {frozenset({ROOT, FILE}), frozenset({ROOT, FILE, 4, 5})}


@given(SEEDS)
def test_failed_sync_is_not_made_good_by_the_next(seed: int) -> None:
    made, _ = volume()
    made.sync_failed(FILE, b"new")
    made.synced(FILE, b"new")
    assert made.durable(FILE) == b"old", "the kernel takes pages for clean whose write-back failed"
    made.synced(FILE, b"newer")
    assert made.durable(FILE) == b"newer"
