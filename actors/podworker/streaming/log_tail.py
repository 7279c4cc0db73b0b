"""Where the last N output lines of a log file begin. Reads backwards: costs what the tail holds. Blocks."""

from collections.abc import Iterator
from typing import BinaryIO

from actors.podworker.streaming.log_lines import LONGEST, parse

BLOCK = 64 * 1024


def tail_offset(file: BinaryIO, lines: int) -> int:
    """Offset of the first byte to read. The pieces of one output line (tag P) count as one line."""
    end = file.seek(0, 2)
    seen: set[bytes] = set()
    for start, raw in backwards(file, end):
        line = parse(raw)
        if line is None or (line.partial and line.stream in seen):
            continue  # a P before another piece of its stream belongs to a line that was counted
        if lines <= 0:
            return start + len(raw) + 1
        seen.add(line.stream)
        lines -= 1
    return 0


def backwards(file: BinaryIO, end: int) -> Iterator[tuple[int, bytes]]:
    """Lines with the offset each begins at, last one first. What follows the last newline is no line yet."""
    held, complete = b"", False
    while end > 0:
        start = max(0, end - BLOCK)
        file.seek(start)
        held, end = file.read(end - start) + held, start
        pieces = held.split(b"\n")
        at = start + len(held) + 1
        for piece in reversed(pieces[1:]):
            at -= len(piece) + 1
            if complete:
                yield at, piece
            complete = True
        held = pieces[0] if len(pieces[0]) <= LONGEST else b""
    if complete:
        yield 0, held
