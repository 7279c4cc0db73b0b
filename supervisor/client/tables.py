"""What commands print: plain columns for people, JSON for programs."""

import sys
from collections.abc import Sequence

import msgspec


def print_json(value: object) -> None:
    """What `-o json` prints."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Left-aligned columns, two blanks apart; the last one is not padded."""
    widths = [max(len(row[index]) for row in (header, *rows)) for index in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in (header, *rows)
    )


def duration(seconds: float) -> str:
    """`12.3s`, `4m10s`, `3h5m`, `2d4h`."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    if hours < 1:
        return f"{minutes}m{int(seconds) % 60}s"
    return f"{hours}h{minutes % 60}m" if days < 1 else f"{days}d{hours % 24}h"
