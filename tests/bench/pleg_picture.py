"""Draw docs/explanation/pleg.svg from the figures in pleg_figures.txt.

`python -m tests.bench.pleg_picture measure` writes the figures (six minutes), `... draw` draws the picture.
"""

import sys
from collections.abc import Callable
from math import log
from pathlib import Path

from tests.bench import pleg_idle, pleg_latency

FIGURES = Path(__file__).parent / "pleg_figures.txt"
PICTURE = Path(__file__).parents[2] / "docs" / "explanation" / "pleg.svg"
COLOURS = {"generic": "#c0392b", "hint": "#d68910", "evented": "#1e8449"}
WIDTH, HEIGHT, MARGIN, GAP = 360, 240, 50, 60
Series = dict[str, list[tuple[float, float]]]
"""Mode -> points."""


def measure() -> None:
    lines = ["# cpu: mode, pods, % of a core (cri, pleg, podworker, runtime); latency: mode, pods, ms (median, worst)"]
    for mode in COLOURS:
        for size, shares in pleg_idle.measure(mode, pleg_idle.PICTURED).items():
            lines.append(f"cpu {mode} {size} " + " ".join(f"{share:.3f}" for share in shares.values()))
        for size, (middle, worst) in pleg_latency.measure(mode).items():
            lines.append(f"latency {mode} {size} {middle:.1f} {worst:.1f}")
    FIGURES.write_text("\n".join(lines) + "\n")


def draw() -> None:
    rows = [line.split() for line in FIGURES.read_text().splitlines() if line and not line.startswith("#")]
    cpu = _series(rows, "cpu", lambda values: sum(values[:3]))
    latency = _series(rows, "latency", lambda values: values[0])
    panels = [
        _panel(0, "idle CPU of cri + pleg + podworker (% of a core)", cpu, [0, 0.5, 1.0, 1.5]),
        _panel(1, "container end to lifecycle event, median (ms)", latency, [1, 10, 100, 1000], logarithmic=True),
    ]
    width, height = 2 * (WIDTH + MARGIN) + GAP, HEIGHT + 2 * MARGIN
    box = f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box}>'
    PICTURE.write_text("\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *panels, "</svg>"]) + "\n")


def _series(rows: list[list[str]], what: str, value: Callable[[list[float]], float]) -> Series:
    found: Series = {}
    for kind, mode, size, *values in rows:
        if kind == what:
            found.setdefault(mode, []).append((float(size), value([float(item) for item in values])))
    return found


def _panel(number: int, title: str, series: Series, ticks: list[float], logarithmic: bool = False) -> str:
    left, top = MARGIN + number * (WIDTH + GAP + MARGIN // 2), MARGIN

    def x(pods: float) -> float:
        return left + WIDTH * pods / 520

    def y(value: float) -> float:
        if logarithmic:
            return top + HEIGHT * (1 - log(value / ticks[0]) / log(ticks[-1] / ticks[0]))
        return top + HEIGHT * (1 - value / ticks[-1])

    parts = [f'<text x="{left}" y="{top - 20}" font-weight="bold">{title}</text>']
    for tick in ticks:
        parts.append(f'<line x1="{left}" x2="{left + WIDTH}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for pods in (10, 110, 250, 500):
        parts.append(f'<text x="{x(pods):.1f}" y="{top + HEIGHT + 16}" text-anchor="middle">{pods}</text>')
    parts.append(f'<text x="{left + WIDTH / 2}" y="{top + HEIGHT + 34}" text-anchor="middle">pods</text>')
    for mode, points in series.items():
        path = " ".join(f"{x(pods):.1f},{y(value):.1f}" for pods, value in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[mode]}" stroke-width="2"/>')
        last = points[-1]
        at = f'x="{x(last[0]) - 4:.1f}" y="{y(last[1]) - 6:.1f}"'
        parts.append(f'<text {at} fill="{COLOURS[mode]}" text-anchor="end">{mode}</text>')
    return "\n".join(parts)


if __name__ == "__main__":
    {"measure": measure, "draw": draw}[sys.argv[1]]()
