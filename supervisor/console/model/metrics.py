"""Read a page of metrics in Prometheus' text format, line by line and only the names that are wanted."""

import re
from collections.abc import Collection, Iterator

SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
MAX_PAGE_BYTES = 32 * 1024 * 1024
Labels = dict[str, str]


class Page:
    """Samples by name."""

    def __init__(self, text: str, names: Collection[str]) -> None:
        self.samples: dict[str, list[tuple[Labels, float]]] = {}
        for name, labels, value in _samples(text, names):
            self.samples.setdefault(name, []).append((labels, value))

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of the samples that have these labels."""
        found = self.samples.get(name, ())
        return sum(value for each, value in found if all(each.get(k) == v for k, v in labels.items()))

    def by(self, name: str, *keys: str, **labels: str) -> dict[tuple[str, ...], float]:
        """Return sums by the values of `keys`, of the samples that have `labels`."""
        sums: dict[tuple[str, ...], float] = {}
        for each, value in self.samples.get(name, ()):
            if all(each.get(k) == v for k, v in labels.items()):
                key = tuple(each.get(k, "") for k in keys)
                sums[key] = sums.get(key, 0.0) + value
        return sums


def bucket_quantile(page: Page, name: str, share: float) -> float | None:
    """Return the upper bound of the bucket in which a quantile lies; None without samples."""
    found = sorted(
        (float(labels["le"]), value) for labels, value in page.samples.get(f"{name}_bucket", ()) if "le" in labels
    )
    if not found or not found[-1][1]:
        return None
    target = share * found[-1][1]
    finite = [(bound, count) for bound, count in found if bound != float("inf")]
    return next((bound for bound, count in finite if count >= target), finite[-1][0] if finite else None)


def _samples(text: str, names: Collection[str]) -> Iterator[tuple[str, Labels, float]]:
    starts = tuple(names)
    for line in text[:MAX_PAGE_BYTES].splitlines():
        if not line.startswith(starts) or (found := SAMPLE.match(line)) is None or found[1] not in names:
            continue
        try:
            value = float(found[3])
        except ValueError:
            continue
        yield found[1], dict(LABEL.findall(found[2] or "")), value
