"""A page of metrics, of which only the wanted samples are retained."""

from collections.abc import Collection, Iterable, Mapping
from typing import Self

from protocols.recording.samples import Labels, parsed, samples


class Page:
    """Samples by name."""

    def __init__(self, text: str, names: Collection[str]) -> None:
        self.samples: dict[str, list[tuple[Labels, float]]] = {}
        self._add(samples(text, names))

    @classmethod
    def of(cls, found: Mapping[str, float]) -> Self:
        """Return the page that has these samples, by their texts."""
        page = cls("", ())
        page._add(found.items())
        return page

    def _add(self, found: Iterable[tuple[str, float]]) -> None:
        for sample, value in found:
            name, labels = parsed(sample)
            self.samples.setdefault(name, []).append((labels, value))

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of the samples that have these labels."""
        series = self.samples.get(name, ())
        return sum(value for sample, value in series if all(sample.get(k) == v for k, v in labels.items()))

    def by(self, name: str, *keys: str, **labels: str) -> dict[tuple[str, ...], float]:
        """Return sums by the values of `keys`, of the samples that have `labels`."""
        sums: dict[tuple[str, ...], float] = {}
        for sample, value in self.samples.get(name, ()):
            if all(sample.get(k) == v for k, v in labels.items()):
                key = tuple(sample.get(k, "") for k in keys)
                sums[key] = sums.get(key, 0.0) + value
        return sums


def bucket_quantile(page: Page, name: str, share: float) -> float | None:
    """Return the upper bound of the bucket in which a quantile lies; None without samples."""
    buckets = sorted(
        (float(labels["le"]), value) for labels, value in page.samples.get(f"{name}_bucket", ()) if "le" in labels
    )
    if not buckets or not buckets[-1][1]:
        return None
    target = share * buckets[-1][1]
    finite = [(bound, count) for bound, count in buckets if bound != float("inf")]
    return next((bound for bound, count in finite if count >= target), finite[-1][0] if finite else None)
