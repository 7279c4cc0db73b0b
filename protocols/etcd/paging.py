"""Page limits in keys, for lists that must stay small although object sizes are unknown beforehand. Pure.

etcd's limit counts keys. So a list begins with few, and the number follows the sizes seen. It grows slowly and not far:
large objects may follow many small ones, and the store reads a whole page before the client can reject it.
"""

from protocols.etcd.types import KeyValue, Ranged

FIRST, MOST = 64, 1000
"""Keys of the first page, and of any. 1,000 of the largest objects (1.5 MiB) are the worst a store may have to read."""
PAGE_BYTES = 4 * 1024 * 1024
"""Target size of a page, which is transferred and decoded in milliseconds."""


class Pager:
    """Number of keys to ask for in the next page of a list; report each page with `took` or `failed`."""

    def __init__(self) -> None:
        self.limit = FIRST
        """Keys to ask for next."""

    def took(self, keys: int, size: int) -> None:
        """Record a page of `keys` keys and `size` bytes; the next one has at most twice as many keys."""
        if keys:
            fitting = PAGE_BYTES * keys // max(size, 1)
            self.limit = max(1, min(fitting, 2 * self.limit, MOST))

    def failed(self) -> bool:
        """Record a page that was too large or took too long; return False if it was a single key already."""
        smaller = max(1, self.limit // 8)
        better, self.limit = smaller < self.limit, smaller
        return better


class PagedListing:
    """All keys below a prefix at one revision, page by page; a page that failed is asked for again."""

    def __init__(self, prefix: bytes) -> None:
        self.prefix = prefix
        self.pager = Pager()
        self.start = prefix
        """First key of the next page."""
        self.revision = 0
        """Revision of the first page; 0 = not known yet."""
        self.kvs: list[KeyValue] = []
        self.complete = False

    def took(self, page: Ranged) -> None:
        self.kvs += page.kvs
        self.revision = self.revision or page.revision
        self.pager.took(len(page.kvs), sum(len(kv.value) for kv in page.kvs))
        self.complete = not page.more or not page.kvs
        if not self.complete:
            self.start = page.kvs[-1].key + b"\0"
