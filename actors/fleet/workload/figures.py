"""Figures of a scenario: how long pods took to start, how many a second, and what they cost. Pure."""

from collections.abc import Mapping, Sequence

import msgspec


class PhaseFigures(msgspec.Struct, frozen=True):
    """Pods of one phase of a scenario; times in seconds."""

    phase: str
    """fill or steady."""
    pods: int
    """Pods that were created."""
    running: int
    """Those of them that ran."""
    seconds: float
    """From the first creation until the last one ran."""
    pods_per_s: float
    p50: float
    """From a pod's creation until the API has it Running, for half of the pods."""
    p90: float
    p99: float
    most: float
    cpu: dict[str, float]
    """CPU milliseconds a pod, by process; `fleet` is this one, which also creates the pods."""


class Startups:
    """Times of the pods of one phase."""

    def __init__(self, phase: str) -> None:
        self.phase = phase
        self._created: dict[str, float] = {}
        self._running: dict[str, float] = {}
        self._rejected: set[str] = set()

    @property
    def waiting(self) -> int:
        """Pods that may still come to run."""
        return len(self._created) - len(self._running) - len(self._rejected)

    def created(self, name: str, at: float) -> None:
        self._created[name] = at

    def ran(self, name: str, at: float) -> None:
        """Note that the API has a pod of this phase Running, or ended. Only the first time counts."""
        if name in self._created:
            self._running.setdefault(name, at)

    def rejected(self, name: str) -> None:
        """Note that its node rejected a pod of this phase."""
        if name in self._created:
            self._rejected.add(name)

    def figures(self, cpu: Mapping[str, float]) -> PhaseFigures:
        """`cpu`: seconds by process during the phase."""
        times = sorted(at - self._created[name] for name, at in self._running.items())
        began, ended = min(self._created.values(), default=0.0), max(self._running.values(), default=0.0)
        seconds = max(0.0, ended - began)
        return PhaseFigures(
            phase=self.phase,
            pods=len(self._created),
            running=len(self._running),
            seconds=seconds,
            pods_per_s=len(times) / seconds if seconds else 0.0,
            p50=quantile(times, 0.5),
            p90=quantile(times, 0.9),
            p99=quantile(times, 0.99),
            most=times[-1] if times else 0.0,
            cpu={name: 1000 * spent / max(1, len(times)) for name, spent in sorted(cpu.items()) if spent > 0},
        )


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the ordered values does not exceed; 0 for none."""
    return ordered[min(len(ordered) - 1, max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1))] if ordered else 0.0


class ScenarioFigures(msgspec.Struct, frozen=True):
    """Output of `nodeplane fleet run SCENARIO -o json`."""

    scenario: str
    nodes: int
    registered_s: float
    """Until every node had its object and its lease."""
    phases: tuple[PhaseFigures, ...]


def table(figures: ScenarioFigures) -> list[str]:
    """Return the lines for people."""
    rows: list[tuple[str, ...]] = [("PHASE", "PODS", "RUNNING", "PODS/S", "P50 S", "P90 S", "P99 S", "MAX S")]
    for phase in figures.phases:
        times = (f"{value:.2f}" for value in (phase.p50, phase.p90, phase.p99, phase.most))
        rows.append((phase.phase, str(phase.pods), str(phase.running), f"{phase.pods_per_s:.1f}", *times))
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    for phase in figures.phases:
        shown = sorted(phase.cpu.items(), key=lambda item: -item[1])
        costs = ", ".join(f"{name} {value:.1f}" for name, value in shown if value >= 0.05)
        lines.append(f"CPU ms a pod, {phase.phase}: {costs or 'none'}")
    return lines
