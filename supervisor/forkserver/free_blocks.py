"""Occupy the free blocks that imports leave between their objects, before actors are forked.

A child would place its own objects in them, one to a page, and each page that it writes to becomes its own. With these
blocks taken its objects lie side by side on new pages: a tenth of a plane's memory, for 3 ms and 1 MB. Nothing frees
them again.
"""

import ctypes
from collections.abc import Callable
from functools import partial

STEP = 16
"""Both allocators round sizes up to a multiple of it."""
POOL_BYTES, POOL_HEADER = 16 * 1024, 48
"""Size of a pool of Python's allocator, and of its header. A pool has blocks of one size, in order while it is new."""
POOL_SIZES = range(48, 512 + STEP, STEP)
EMPTY_BYTES = 33
"""Size of an empty bytes object."""
HEAP_SIZES = range(1024, 16, -STEP)
HEAP_HEADER = 8
"""Bytes of the header of a block of the C library's allocator."""
ADJACENT = 8
"""After so many adjacent blocks the heap has no scattered ones of their size left."""
MOST_BYTES = 256 * 1024
"""Most bytes allocated in blocks of one size: another allocator may place none side by side."""

_taken: list[bytes] = []


def occupy() -> None:
    """Take the free blocks of Python's allocator and of the C library's, size by size, and keep them."""
    malloc = ctypes.CDLL(None).malloc
    malloc.restype, malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
    for size in POOL_SIZES:
        _until_adjacent(size, (POOL_BYTES - POOL_HEADER) // size - 1, partial(_object, size))
    for size in HEAP_SIZES:
        _until_adjacent(size, ADJACENT, partial(malloc, size - HEAP_HEADER))


def _until_adjacent(size: int, count: int, allocate: Callable[[], int]) -> None:
    """Allocate blocks of a size until `count` in a row are adjacent."""
    run, last = 0, 0
    for _ in range(MOST_BYTES // size):
        address = allocate()
        run, last = run + 1 if address == last + size else 0, address
        if run == count:
            return


def _object(size: int) -> int:
    _taken.append(bytes(size - EMPTY_BYTES))
    return id(_taken[-1])
