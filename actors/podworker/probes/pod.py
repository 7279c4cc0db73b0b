"""The probers of one pod, kept in step with the containers that run."""

from collections.abc import Callable, Mapping

from actors.podworker.ports import World
from actors.podworker.probes.prober import Prober, ProberOptions
from actors.podworker.probes.read import probed, probes_of, target
from actors.podworker.probes.types import READINESS, STARTUP, Verdict
from actors.podworker.restarts import history
from actors.podworker.types import ContainerSpec, Object, PodSpec
from protocols.messages.pleg import ContainerStatus, PodStatus


class PodProbes:
    """`on_change`: a verdict changed, the pod is to be looked at."""

    def __init__(
        self, world: World, spec: Callable[[], PodSpec], clock: Callable[[], int], on_change: Callable[[], None]
    ) -> None:
        self._world = world
        self._spec = spec
        self._clock = clock
        self._on_change = on_change
        self._probers: dict[str, Prober] = {}
        self._ending = False

    @property
    def verdicts(self) -> Mapping[str, Verdict]:
        """By container id; containers without probes have none."""
        return {id: prober.verdict for id, prober in self._probers.items()}

    def follow(self, status: PodStatus, shown: Object) -> None:
        """`shown`: the pod's status in the API, from which a new life of this process learns who was ready."""
        spec = self._spec()
        if not self._probers and not probed(spec):
            return
        running = {c.id: c for c in status.containers if c.state == history.RUNNING}
        for id in self._probers.keys() - running.keys():
            self._probers.pop(id).close()
        containers = {c.name: c for c in spec.containers}
        begun = [run for id, run in running.items() if id not in self._probers and run.name in containers]
        known = _known(shown) if begun else {}
        for run in begun:
            self._begin(containers[run.name], run, status, known.get(run.id, frozenset()))

    def end(self) -> None:
        self._ending = True
        for prober in self._probers.values():
            prober.end_liveness()

    def close(self) -> None:
        for prober in self._probers.values():
            prober.close()
        self._probers.clear()

    def _begin(self, container: ContainerSpec, run: ContainerStatus, status: PodStatus, known: frozenset[str]) -> None:
        probes = probes_of(container)
        if not probes:
            return
        site = self._world.site
        ip = status.ips[0] if status.ips else site.host_ip
        options = ProberOptions(
            world=self._world,
            spec=self._spec,
            container=container,
            probes=probes,
            target=target(container, run.id, ip),
            started_ns=run.started_ns,
            clock=self._clock,
            on_change=self._on_change,
            known=known,
        )
        self._probers[run.id] = Prober(options)
        if self._ending:
            self._probers[run.id].end_liveness()


def _known(shown: Object) -> dict[str, frozenset[str]]:
    """Kinds of probes that have succeeded, by container id."""
    entries = (*(shown.get("containerStatuses") or ()), *(shown.get("initContainerStatuses") or ()))
    return {str(entry.get("containerID") or "").partition("//")[2]: _succeeded(entry) for entry in entries}


def _succeeded(entry: Object) -> frozenset[str]:
    kinds = ((STARTUP, entry.get("started")), (READINESS, entry.get("ready")))
    return frozenset(kind for kind, good in kinds if good)
