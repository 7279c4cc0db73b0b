"""The action RestartAllContainers: restart all containers of a pod in place when one exits as a rule says. Pure.

- Live containers are killed at once, without preStop hook and grace period.
- Once none is live, all runs are removed from the runtime, those that matched a rule last: whoever is interrupted in
  between finds them and continues.
- A pod without runs starts as if for the first time, but in its sandbox. Restart counts continue from the API's status.
"""

from protocols.lifecycle.pods import runtime_status
from protocols.lifecycle.pods.types import RESTART_ALL, Kill, PodActions, PodSpec
from protocols.lifecycle.restarts.policy import matching_action
from protocols.messages.pleg import ContainerStatus, PodStatus

GRACE_S = 2
WAITING = "RestartingAllContainers"
"""Reason of containers whose run was removed."""


def is_due(spec: PodSpec, status: PodStatus) -> bool:
    """Return True once a container has exited as a rule says, and until all runs are removed."""
    return spec.restarts_in_place and bool(_sources(spec, status))


def plan_restart(spec: PodSpec, status: PodStatus) -> PodActions:
    """Return the next step of a restart that is due."""
    members = {container.name for container in spec.containers}
    runs = [run for run in status.containers if run.name in members]
    if live := [run for run in runtime_status.live(status) if run.name in members]:
        return PodActions(kill=tuple(_kill(run) for run in live), restart_all=True)
    sources = _sources(spec, status)
    others = sorted({run.id for run in runs} - set(sources))
    return PodActions(remove=(*others, *sources), restart_all=True)


def _sources(spec: PodSpec, status: PodStatus) -> tuple[str, ...]:
    """Return the ids of newest runs whose exit restarts all containers."""
    newest = {name: runs[0] for name, runs in runtime_status.by_name(status).items()}
    pairs = [(container, newest.get(container.name)) for container in spec.containers]
    return tuple(
        run.id
        for container, run in pairs
        if run is not None
        and run.state == runtime_status.EXITED
        and matching_action(container, run.exit_code) == RESTART_ALL
    )


def _kill(run: ContainerStatus) -> Kill:
    text = f"Container {run.name} is killed, all containers of the pod will be restarted"
    return Kill(id=run.id, name=run.name, message=text, grace=GRACE_S, fast=True)
