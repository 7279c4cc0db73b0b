"""Names no other object ever has: random UUIDs, made for each object and each audit line, so without uuid's class."""

import os

BATCH = 128
"""Made at once: one system call, and each digit of all of them in one go."""
LENGTH, DIGITS = 36, 32
PLACES = (*range(8), *range(9, 13), *range(14, 18), *range(19, 23), *range(24, LENGTH))
"""Where the digits go; the rest are dashes."""
VERSION_AT, VARIANT_AT = 14, 19
VARIANTS = bytes.maketrans(b"0123456789abcdef", b"89ab" * 4)
"""Version 4, variant RFC 9562: six of the bits are not random."""
_kept: list[str] = []
os.register_at_fork(after_in_child=_kept.clear)


def new_uid() -> str:
    if not _kept:
        _kept.extend(_made())
    return _kept.pop()


def _made() -> list[str]:
    digits, text = os.urandom(16 * BATCH).hex().encode(), bytearray(b"-" * LENGTH * BATCH)
    for number, place in enumerate(PLACES):
        text[place::LENGTH] = digits[number::DIGITS]
    text[VERSION_AT::LENGTH] = b"4" * BATCH
    text[VARIANT_AT::LENGTH] = text[VARIANT_AT::LENGTH].translate(VARIANTS)
    uids = text.decode()
    return [uids[start : start + LENGTH] for start in range(0, len(uids), LENGTH)]
