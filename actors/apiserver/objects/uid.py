"""Names no other object ever has: random UUIDs, made for each object and each audit line, so without uuid's class."""

import os

VERSION = 0x4000_8000_0000_0000_0000
"""The bits that say version 4, variant RFC 9562."""
RANDOM = (1 << 128) - 1 - 0xF000_C000_0000_0000_0000


def new_uid() -> str:
    digits = f"{int.from_bytes(os.urandom(16)) & RANDOM | VERSION:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
