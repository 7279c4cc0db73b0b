"""Pages follow the sizes seen, and a list goes on where a page failed."""

from hypothesis import given
from hypothesis import strategies as st

from protocols.etcd.paging import FIRST, MOST, PAGE_BYTES, PagedListing, Pager
from protocols.etcd.types import KeyValue, Ranged

LARGEST = 3 * 512 * 1024


@given(st.lists(st.integers(1, LARGEST), min_size=1, max_size=400))
def test_pager_pages_stay_near_their_size_while_sizes_do(sizes: list[int]) -> None:
    pager = Pager()
    for size in sizes:
        asked = pager.limit
        assert 1 <= asked <= MOST
        pager.took(asked, asked * size)
        assert pager.limit <= 2 * asked
        assert pager.limit == 1 or pager.limit * size <= PAGE_BYTES


def test_pager_gets_smaller_until_a_single_key_is_left() -> None:
    pager = Pager()
    assert [pager.failed(), pager.limit] == [True, FIRST // 8]
    assert [pager.failed(), pager.limit] == [True, 1]
    assert [pager.failed(), pager.limit] == [False, 1]


def test_listing_keeps_its_revision_and_its_place() -> None:
    listing = PagedListing(b"/a/")
    kv = KeyValue(b"/a/1", b"x" * LARGEST, 1, 1, 1)
    listing.took(Ranged([kv], True, 3, 7))
    assert (listing.start, listing.revision, listing.complete, listing.pager.limit) == (b"/a/1\0", 7, False, 2)
    listing.took(Ranged([kv], False, 2, 9))
    assert (listing.revision, listing.complete, len(listing.kvs)) == (7, True, 2)
