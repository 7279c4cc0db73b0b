"""xxHash, 64 bits wide: what the topology scheduler's fingerprints are made of. Pure."""

MASK = (1 << 64) - 1
P1, P2, P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P4, P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
STRIPE = 32


def xxhash64(data: bytes, seed: int = 0) -> int:
    if len(data) >= STRIPE:
        mixed, at = _stripes(data, seed)
    else:
        mixed, at = seed + P5, 0
    mixed = _rest(mixed + len(data) & MASK, data[at:])
    mixed = (mixed ^ mixed >> 33) * P2 & MASK
    mixed = (mixed ^ mixed >> 29) * P3 & MASK
    return mixed ^ mixed >> 32


def _stripes(data: bytes, seed: int) -> tuple[int, int]:
    """The mix of all whole stripes, and where they end."""
    lanes, at = [seed + P1 + P2, seed + P2, seed, seed - P1], 0
    while at + STRIPE <= len(data):
        lanes = [_round(lane, data[at + 8 * index : at + 8 * index + 8]) for index, lane in enumerate(lanes)]
        at += STRIPE
    mixed = sum(_left(lane, turn) for lane, turn in zip(lanes, (1, 7, 12, 18), strict=True)) & MASK
    for lane in lanes:
        mixed = (mixed ^ _left(lane * P2 & MASK, 31) * P1 & MASK) * P1 + P4 & MASK
    return mixed, at


def _rest(mixed: int, data: bytes) -> int:
    """Hash the rest, shorter than a stripe, by eight bytes, then four, then one."""
    while len(data) >= 8:
        mixed = _left(mixed ^ _round(0, data[:8]), 27) * P1 + P4 & MASK
        data = data[8:]
    if len(data) >= 4:
        mixed = _left(mixed ^ int.from_bytes(data[:4], "little") * P1 & MASK, 23) * P2 + P3 & MASK
        data = data[4:]
    for byte in data:
        mixed = _left(mixed ^ byte * P5 & MASK, 11) * P1 & MASK
    return mixed


def _round(lane: int, word: bytes) -> int:
    return _left(lane + int.from_bytes(word, "little") * P2 & MASK, 31) * P1 & MASK


def _left(value: int, by: int) -> int:
    return (value << by | value >> 64 - by) & MASK
