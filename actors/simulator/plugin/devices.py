"""The devices that a plugin offers, their health, and how the steps of a script change them. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from actors.simulator.engine.files import HealthFileInvalid
from actors.simulator.plugin.script import MOST_DEVICES, DeviceSpec, PluginStep

HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"


def parse_health(text: str) -> dict[str, str]:
    """Read lines `DEVICE HEALTH`, blank lines and # comments. Raises HealthFileInvalid."""
    health: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if len(words) not in (0, 2):
            raise HealthFileInvalid(f"line {number} of the health file is not `DEVICE HEALTH`: {line.strip()}")
        if words:
            health[words[0]] = words[1]
    return health


def numbered(name: str, count: int, numa: int) -> list[DeviceSpec]:
    """Make devices `NAME-0`, `NAME-1` ..., in equal blocks over `numa` NUMA nodes; 0 = without topology."""
    return [DeviceSpec(id=f"{name}-{at}", numa=at * numa // count if numa else ()) for at in range(count)]


class PluginDevices:
    """Devices by id, in the order in which the plugin lists them. Changes return a line each for the log."""

    def __init__(self, name: str, specs: Iterable[DeviceSpec]) -> None:
        self._name = name
        self._specs: dict[str, DeviceSpec] = {spec.id: spec for spec in specs}
        self.health: dict[str, str] = {spec.id: spec.health for spec in self._specs.values()}

    def __len__(self) -> int:
        return len(self._specs)

    def specs(self) -> list[DeviceSpec]:
        return list(self._specs.values())

    def numa(self) -> dict[str, tuple[int, ...]]:
        return {id: spec.nodes for id, spec in self._specs.items()}

    def set_all(self, health: Mapping[str, str]) -> list[str]:
        """Set the health of every device; those not named are healthy."""
        return self._set({id: health.get(id, HEALTHY) for id in self._specs})

    def apply(self, step: PluginStep) -> list[str]:
        """Apply the device changes of a step; a device that does not exist is skipped with a line."""
        wanted = {**step.health, **dict.fromkeys(step.unhealthy, UNHEALTHY), **dict.fromkeys(step.healthy, HEALTHY)}
        lines = [f"{id} is not there" for id in wanted if id not in self._specs]
        lines += self._set({id: health for id, health in wanted.items() if id in self._specs})
        return lines + self._add(step.add) + self._remove(step.remove)

    def _set(self, health: Mapping[str, str]) -> list[str]:
        changed = {id: word for id, word in health.items() if self.health[id] != word}
        self.health.update(changed)
        return [f"{id} is {word}" for id, word in changed.items()]

    def _add(self, more: int | Sequence[DeviceSpec]) -> list[str]:
        specs = self._next(more) if isinstance(more, int) else more
        for spec in specs[: MOST_DEVICES - len(self)]:
            self._specs[spec.id] = spec
            self.health[spec.id] = spec.health
        return [f"{len(specs)} devices more"] if specs else []

    def _next(self, count: int) -> list[DeviceSpec]:
        free = (id for at in range(MOST_DEVICES) if (id := f"{self._name}-{at}") not in self._specs)
        return [DeviceSpec(id=id) for _, id in zip(range(count), free, strict=False)]

    def _remove(self, fewer: int | Sequence[str]) -> list[str]:
        ids = list(self._specs)[max(0, len(self) - fewer) :] if isinstance(fewer, int) and fewer > 0 else fewer
        gone = [id for id in ids if id in self._specs] if not isinstance(ids, int) else []
        for id in gone:
            del self._specs[id], self.health[id]
        return [f"{len(gone)} devices fewer"] if gone else []
