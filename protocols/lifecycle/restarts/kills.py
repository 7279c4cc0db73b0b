"""Containers that must end, in which order, and whether they start again afterwards. Pure.

The kill decides about the restart, as in kubelet: the exit code of a container that was killed proves nothing.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from protocols.lifecycle.pods import runtime_status
from protocols.lifecycle.pods.probes import ProbeVerdict
from protocols.lifecycle.pods.types import INIT, NEVER, SIDECAR, ContainerSpec, Kill, PodSpec
from protocols.lifecycle.restarts.policy import policy_of
from protocols.messages.pleg import ContainerStatus, PodStatus

FINE = ProbeVerdict()
AGAIN = ", will be restarted"


def containers_to_kill(
    spec: PodSpec, status: PodStatus, newest: Mapping[str, ContainerStatus], verdicts: Mapping[str, ProbeVerdict]
) -> tuple[Kill, ...]:
    """Return live containers that must end while the pod runs.

    These are containers of another sandbox, not in the spec, changed, duplicate, unknown, or with a failed probe.
    """
    kills = []
    for container in runtime_status.live(status):
        named = spec.find(container.name)
        if named is None:
            kills.append(_kill(container, f"Container {container.name} is not part of the pod"))
        elif kill := _of_known(spec, named, container, newest.get(container.name), verdicts.get(container.id, FINE)):
            kills.append(kill)
    return tuple(kills)


def _of_known(
    spec: PodSpec, named: ContainerSpec, run: ContainerStatus, newest: ContainerStatus | None, verdict: ProbeVerdict
) -> Kill | None:
    if newest is None or newest.id != run.id:
        return _kill(run, f"Container {run.name} is a leftover of an earlier start")
    if run.state == runtime_status.UNKNOWN:
        text = f"Container {run.name} is in an unknown state, try killing it before restart"
        return _kill(run, text, restart=True)
    if run.spec_hash and run.spec_hash != named.hash and named.kind != INIT:
        text = f"Container {run.name} definition changed{AGAIN}"
        if named.kind == SIDECAR:
            text = f"Init container {run.name} definition changed"
        return _kill(run, text, restart=True)
    if not verdict.fault:
        return None
    if named.kind == SIDECAR:
        return _kill(run, f"Init container {run.name} failed {verdict.fault} probe", verdict.grace, restart=True)
    restart = policy_of(spec.restart_policy, named) != NEVER
    text = f"Container {run.name} failed {verdict.fault} probe{AGAIN if restart else ''}"
    return _kill(run, text, verdict.grace, restart)


def _kill(run: ContainerStatus, message: str, grace: int = 0, restart: bool = False) -> Kill:
    return Kill(id=run.id, name=run.name, message=message, grace=grace, restart=restart)


def stop_all(spec: PodSpec, live: Collection[ContainerStatus]) -> tuple[Kill, ...]:
    """Return the kills that end a pod: all at once, but sidecars wait for the containers that they serve."""
    return ordered(spec, (_kill(run, f"Stopping container {run.name}") for run in live))


def ordered(spec: PodSpec, kills: Iterable[Kill]) -> tuple[Kill, ...]:
    """Let the last sidecar end after all app containers, and each other one after the next one, as upstream.

    No sidecar waits for a debugging shell, which often ends with the grace period only.
    """
    order = {c.name: index for index, c in enumerate(spec.containers) if c.kind == SIDECAR}
    result: list[Kill] = []
    sidecars: list[Kill] = []
    for kill in kills:
        (sidecars if kill.name in order else result).append(kill)
    apps = {container.name for container in spec.apps}
    before = tuple(kill.id for kill in result if kill.name in apps)
    for kill in sorted(sidecars, key=lambda kill: order[kill.name], reverse=True):
        result.append(msgspec.structs.replace(kill, after=before))
        before = (kill.id,)
    return tuple(result)
