"""What an etcd version can be relied on for. Pure."""

import re

from actors.watchcache.errors import StoreTooOld

Version = tuple[int, int, int]


def parse(text: str) -> Version:
    """`3.5.13`, `3.6.0-rc.1`; anything else counts as the oldest."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else (0, 0, 0)


def check(text: str) -> None:
    """Raises StoreTooOld for versions that lose acknowledged writes when they are killed."""
    version = parse(text)
    if version < (3, 4, 21) or (3, 5, 0) <= version < (3, 5, 6):
        raise StoreTooOld(f"etcd {text} can lose acknowledged writes in a crash; use 3.4.21, 3.5.6, 3.6 or newer")


def answers_in_order(text: str) -> bool:
    """Whether progress on request comes behind the events it speaks of. Others tell the store's revision at once, even
    to a watch that is still catching up: to believe it would lose events."""
    version = parse(text)
    return version >= (3, 5, 13) or (3, 4, 31) <= version < (3, 5, 0)
