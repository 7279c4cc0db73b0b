"""The measured costs as the tables of docs/explanation/scale.md."""

from collections.abc import Iterator

from supervisor.size import costs
from supervisor.size.costs import DATE, LARGE, MACHINE, RATES, SMALL, PerObject

MISSING = "-"


def cost_tables() -> list[str]:
    """Return the lines of all tables, in Markdown."""
    return [f"Measured on {MACHINE}, {DATE}.", "", *_curves(), "", *_memory(), "", *_disk(), "", *_figures(), ""]


def _curves() -> Iterator[str]:
    yield "| CPU of a write, microseconds | " + " | ".join(f"{rate:g}/s" for rate in RATES) + " | command |"
    yield "|---|" + "---|" * len(RATES) + "---|"
    for name, curve in costs.CURVES.items():
        lacking = [MISSING] * (len(RATES) - len(curve.us))
        yield f"| {name} | {' | '.join([*(f'{us:,.0f}' for us in curve.us), *lacking])} | `{curve.command}` |"


def _memory() -> Iterator[str]:
    sizes = f"{SMALL} bytes | {LARGE} bytes"
    yield f"| memory, private | alone, kB | bytes of an object of {sizes} | each byte of a change | command |"
    yield "|---|---|---|---|---|---|"
    for name, alone in costs.ALONE_KB.items():
        changed = f"{costs.CHANGES[name].value:g}" if name in costs.CHANGES else MISSING
        yield f"| {name} | {alone.value:,.0f} | {_both(costs.OBJECTS.get(name))} | {changed} | `{alone.command}` |"


def _disk() -> Iterator[str]:
    yield f"| bytes that reach the disk for a write | of {SMALL} bytes | of {LARGE} bytes | command |"
    yield "|---|---|---|---|"
    for name, cost in costs.DISK.items():
        yield f"| {name} | {_both(cost)} | `{cost.command}` |"


def _both(cost: PerObject | None) -> str:
    return f"{cost.small:,.0f} | {cost.large:,.0f}" if cost else f"{MISSING} | {MISSING}"


def _figures() -> Iterator[str]:
    yield "| cost | value | command |"
    yield "|---|---|---|"
    for name, figure in costs.FIGURES.items():
        yield f"| {name} | {figure.value:,.10g} {figure.unit}".rstrip() + f" | `{figure.command}` |"
