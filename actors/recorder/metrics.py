"""Sample what the console plots of the processes' metrics: small pages together, one API process at a time."""

import asyncio

from protocols.bus import Bus, BusError
from protocols.messages.supervisor import METRICS, Empty, MetricsText
from protocols.recording.samples import NAMES, SERVER, names_of, samples

TIMEOUT_S = 3.0
SERVER_EVERY = 3
"""Passes, by default of ten seconds each: the page of an API process costs it 60 ms."""
MOST = 2_000
"""Samples of a process that are recorded; later ones of its page are left out."""
LONGEST = 500
"""Characters of a sample's name and labels; a longer one is left out."""


class MetricsSampler:
    """Samples of the processes of one run directory."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._passes = 0
        self._server = ""

    async def read(self, instances: list[str], last: bool = False) -> dict[str, dict[str, float]]:
        """Return the samples of the processes that are due, by instance; one that does not answer is left out."""
        due = [name for name in instances if name in NAMES]
        if last or self._passes % SERVER_EVERY == 0:
            due += self._next_server([name for name in instances if name.startswith(SERVER)])
        self._passes += 1
        found = await asyncio.gather(*map(self._samples, due))
        return {name: each for name, each in zip(due, found, strict=True) if each}

    def _next_server(self, servers: list[str]) -> list[str]:
        later = [name for name in servers if name > self._server]
        chosen = (later or servers)[:1]
        self._server = "".join(chosen)
        return chosen

    async def _samples(self, instance: str) -> dict[str, float]:
        try:
            reply = await self._bus.call(instance, METRICS, Empty(), MetricsText, timeout=TIMEOUT_S)
        except BusError:
            return {}  # it is away
        found: dict[str, float] = {}
        for sample, value in samples(reply.text, names_of(instance)):
            if len(sample) <= LONGEST and len(found) < MOST:
                found[sample] = value
        return found
