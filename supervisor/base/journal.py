"""Levels of lines for systemd's journal: a prefix <N> on what a process writes to it."""

import os
import re
from collections.abc import Mapping

ERROR, WARNING, NOTICE, INFO = 3, 4, 5, 6
"""Levels of syslog, as the journal reads them."""
LEVELS = ((ERROR, re.compile(r"\b(ERROR|CRITICAL|error|critical)\b")), (WARNING, re.compile(r"\b(WARNING|warning)\b")))
STDERR = 2
HEAD = 120
"""Characters in which a line states its level."""


def is_journal(descriptor: int, environment: Mapping[str, str] = os.environ) -> bool:
    """Return True if this descriptor is the stream to the journal that JOURNAL_STREAM names as DEVICE:INODE.

    The variable is inherited by processes whose output was redirected: only the numbers are reliable.
    """
    try:
        stat = os.fstat(descriptor)
    except OSError:
        return False
    return environment.get("JOURNAL_STREAM", "") == f"{stat.st_dev}:{stat.st_ino}"


def level_of(line: str) -> int:
    """Return the level that a line of an actor's log states; NOTICE for one that states none."""
    return next((level for level, word in LEVELS if word.search(line[:HEAD])), NOTICE)


def for_journal(text: str, level: int) -> str:
    """Return the text with the level in front of each line: the journal makes an entry of every line."""
    return "\n".join(f"<{level}>{line}" for line in text.splitlines())
