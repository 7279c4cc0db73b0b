"""The kernel's list syntax for CPUs and NUMA nodes: `0-3,8`."""

from collections.abc import Iterable

from protocols.errors import SettingsInvalid

MOST = 65536
"""No machine has more; a list that names more is garbage, not a machine."""


def parse_list(text: str) -> frozenset[int]:
    """Raises SettingsInvalid; an empty text is the empty set."""
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, dash, last = part.strip().partition("-")
        if not is_number(first) or (dash and not is_number(last)):
            raise SettingsInvalid(f"{text.strip()!r} is no list of CPUs; write it like 0-3,8")
        low, high = int(first), int(last or first)
        if low > high or high >= MOST:
            raise SettingsInvalid(f"{part!r} is no range of CPUs; write it like 0-3, the smaller number first")
        cpus.update(range(low, high + 1))
    return frozenset(cpus)


def format_list(numbers: Iterable[int]) -> str:
    """Return numbers in ascending order, runs as ranges; the inverse of parse_list."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def is_number(text: str) -> bool:
    """Return True for a decimal number; one of thousands of digits, which Python does not convert, is none."""
    return text.isascii() and text.isdigit() and len(text) < 10
