"""Give memory that a storm of clients left free back to the system.

glibc keeps what was freed in its heap, and a heap in which thousands of connections lay interleaved is taken from fresh
pages with each storm: the process grows although nothing is in use. Two settings and a trim keep it near its size:

- Blocks from MAPPED_BYTES on, such as the bodies of large requests, are mappings of their own. By itself glibc raises
  this limit to 32 MiB once such a block was freed. It lies above uvloop's 256 KiB: each read of its TLS, which
  clients use, allocates that much for a moment, and a mapping for each read costs a write a third of its CPU.
- `Trimmer` returns free pages once the process has stopped growing and RECLAIMABLE_BYTES or more look reclaimable.
"""

import asyncio
import ctypes
import os

import msgspec

MAPPED_BYTES = 1024 * 1024
TOP_BYTES = 8 * 1024 * 1024
"""Free bytes that may stay at the heap's end, lest it shrinks and grows again with each large request."""
CHECK_S = 10.0
RECLAIMABLE_BYTES = 8 * 1024 * 1024
STEADY_BYTES = 4 * 1024 * 1024
"""A process that grew by less between two checks has stopped growing."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
PAGE = os.sysconf("SC_PAGE_SIZE")


class MemoryUsage(msgspec.Struct, frozen=True):
    """Bytes."""

    resident: int
    allocated: int
    """By the C library's allocator."""


class TrimPolicy:
    """Decides when to trim. Pure."""

    def __init__(self, start: MemoryUsage) -> None:
        self._trimmed = start
        """As it was after the last trim: growth since then that is not allocated is reclaimable."""
        self._last = start

    def due(self, now: MemoryUsage) -> bool:
        """Return True when a trim is worth while; call `trimmed` afterwards."""
        grown, self._last = now.resident - self._last.resident, now
        kept = now.resident - self._trimmed.resident
        used = now.allocated - self._trimmed.allocated
        return grown < STEADY_BYTES and kept - used >= RECLAIMABLE_BYTES

    def trimmed(self, now: MemoryUsage) -> None:
        self._trimmed = self._last = now


class _Mallinfo(ctypes.Structure):
    """struct mallinfo2 of malloc.h."""

    _fields_ = [  # ctypes wants it so
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    ]  # fmt: skip


class Heap:
    """The C library's allocator. `supported` is False where it is not glibc: then nothing is done."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self.supported = hasattr(library, "malloc_trim") and hasattr(library, "mallinfo2")
        if self.supported:
            self._info, self._trim = library.mallinfo2, library.malloc_trim
            self._info.restype = _Mallinfo
            self._trim.argtypes = (ctypes.c_size_t,)
            library.mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES)
            library.mallopt(M_TRIM_THRESHOLD, TOP_BYTES)

    def usage(self) -> MemoryUsage:
        with open("/proc/self/statm", "rb") as file:
            resident = int(file.read().split()[1]) * PAGE
        info = self._info()
        return MemoryUsage(resident, info.uordblks + info.hblkhd)

    def trim(self) -> None:
        self._trim(0)


class Trimmer:
    """Checks every CHECK_S and trims in a thread; the loop waits only if it allocates a large block meanwhile."""

    def __init__(self, heap: Heap) -> None:
        self._heap = heap
        self._policy = TrimPolicy(heap.usage()) if heap.supported else None

    async def run(self) -> None:
        """Run until cancelled; return at once where the C library cannot trim."""
        while self._policy is not None:
            await asyncio.sleep(CHECK_S)
            if self._policy.due(self._heap.usage()):
                await asyncio.to_thread(self._heap.trim)
                self._policy.trimmed(self._heap.usage())
