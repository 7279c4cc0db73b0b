"""The last line of `make simulate`: one JSON object about all runs."""

import hashlib

import msgspec

from tests.simulation.run.seeds import Result


class Summary:
    """Counts over runs; memory does not grow with what a run did."""

    def __init__(self) -> None:
        self.failures = self.faults = 0
        self.virtual_s = self.cpu_s = 0.0
        self._traces: list[tuple[str, int, float, str]] = []

    def add(self, result: Result) -> None:
        options, outcome = result.options, result.outcome
        self.failures += bool(result.broken)
        self._traces.append((options.profile, options.seed, options.seconds, outcome.trace if outcome else ""))
        if outcome is not None:
            self.faults += len(outcome.faults)
            self.virtual_s += outcome.virtual_s
            self.cpu_s += result.cpu_s

    @property
    def seeds(self) -> int:
        return len(self._traces)

    @property
    def times_real(self) -> float:
        """Return virtual seconds for each second of CPU time: how fast one core is, whatever else runs."""
        return self.virtual_s / self.cpu_s if self.cpu_s else 0.0

    def trace(self) -> str:
        """Return a hash over the traces of all runs, in whatever order they ended."""
        return hashlib.sha256(msgspec.json.encode(sorted(self._traces))).hexdigest()[:16]

    def line(self) -> str:
        return msgspec.json.encode(
            {
                "seeds": self.seeds,
                "virtual_s": round(self.virtual_s),
                "times_real": round(self.times_real, 1),
                "faults": self.faults,
                "failures": self.failures,
                "trace": self.trace(),
            }
        ).decode()
