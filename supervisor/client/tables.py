"""Output of commands: tables for users, JSON for programs."""

import sys
from collections.abc import Sequence

import msgspec


def print_json(value: object) -> None:
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return left-aligned columns, two blanks apart; the last one is not padded."""
    widths = [max(len(row[index]) for row in (header, *rows)) for index in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in (header, *rows)
    )


def duration(seconds: float) -> str:
    """Format as `12.3s`, `4m10s`, `3h5m` or `2d4h`."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    if hours < 1:
        return f"{minutes}m{int(seconds) % 60}s"
    return f"{hours}h{minutes % 60}m" if days < 1 else f"{days}d{hours % 24}h"
