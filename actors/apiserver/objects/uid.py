"""Names no other object ever has: random UUIDs, made for each object and each audit line, so without uuid's class."""

import os

VERSION = 0x4000_8000_0000_0000_0000
"""The bits that say version 4, variant RFC 9562."""
RANDOM = (1 << 128) - 1 - 0xF000_C000_0000_0000_0000


BATCH = 64
"""Taken from the kernel by one system call, which costs more than the rest."""
_kept: list[int] = []
os.register_at_fork(after_in_child=_kept.clear)


def new_uid() -> str:
    if not _kept:
        taken = os.urandom(16 * BATCH)
        _kept.extend(int.from_bytes(taken[at : at + 16]) & RANDOM | VERSION for at in range(0, 16 * BATCH, 16))
    digits = f"{_kept.pop():032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
