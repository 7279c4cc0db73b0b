"""Computes a pod's status from what is known and hands it to the status manager."""

from collections.abc import Callable, Mapping

from actors.podworker.claims.resolve import uses_claims
from actors.podworker.containers.messages import TerminationMessages
from actors.podworker.pods.state import PodState
from actors.podworker.ports import World
from actors.podworker.probes.types import Verdict
from actors.podworker.restarts import history
from actors.podworker.status.device_health import Keep
from actors.podworker.status.pod import View, compute_status, overlay
from actors.podworker.types import Object, Stage, Waiting
from protocols.messages.held import PodHeld
from protocols.messages.pleg import PodStatus


class Reporter:
    """One per pod."""

    def __init__(
        self,
        world: World,
        clock: Callable[[], int],
        runtime_name: Callable[[], str],
        verdicts: Callable[[], Mapping[str, Verdict]],
    ) -> None:
        self._messages = TerminationMessages(world.site)
        self._verdicts = verdicts
        self._world = world
        self._clock = clock
        self._runtime_name = runtime_name

    def shown(self, state: PodState) -> Object:
        """The status as the API will have it once it took what was published."""
        return overlay(state.spec.raw.get("status") or {}, state.shown)

    def report(
        self, state: PodState, runtime: PodStatus, waiting: Mapping[str, Waiting] | None = None, final: bool = False
    ) -> Object:
        """Publishes only what differs; a pod the API no longer has gets none."""
        health = self._world.health
        view = View(
            spec=state.spec,
            runtime=self._messages.fill(state.spec, history.with_failed_starts(runtime, state.failed_starts)),
            before=self.shown(state),
            waiting=waiting or {},
            resources=state.resources,
            runtime_name=self._runtime_name(),
            host_ip=self._world.site.host_ip,
            now_ns=self._clock(),
            sizes=state.sizes,
            final=final,
            held=not state.released and state.rejected is None,
            rejected=state.rejected,
            doomed=state.doomed,
            verdicts=self._verdicts(),
            tells_health=health.on,
            keep=self._keep(state, final),
            had=state.held if final and health.on else PodHeld(),
        )
        status = compute_status(view)
        if not state.gone:
            state.shown = status
            self._world.statuses.publish(state.spec, status, state.resources.reported_ns if state.resources else 0)
        return status

    def _keep(self, state: PodState, final: bool) -> Keep:
        """Until admission has answered in this life, the devices may have been freed in an earlier one; and silence
        about a pod that has some is no word."""
        if final or not self._world.health.heard:
            return Keep.KNOWN
        if state.grants is None or state.stage is not Stage.SYNCING:
            return Keep.UNTOLD
        has = uses_claims(state.spec) or any(grant.held for grant in state.grants.values())
        return Keep.UNTOLD if has and state.resources is None else Keep.NOTHING
