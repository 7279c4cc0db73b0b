"""Sentences for the first line of a failing test: why a pod, a plugin or a program is not as far."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from protocols.kube.meta import name_of
from protocols.process.layout import Layout
from protocols.process.texts import printable
from pytest_nodeplane.processes import Process
from pytest_nodeplane.waiting import condition
from supervisor.client.devices import DeviceRow
from supervisor.why.command import diagnose
from supervisor.why.gather.device_managers import plugin_evidence
from supervisor.why.gather.live import connected
from supervisor.why.model.text import lines
from supervisor.why.others.plugins import plugin_sentence
from supervisor.why.targets import WhyTarget

MAX_DEVICES = 8
"""Devices that a sentence names."""
MAX_LINE = 200
"""Characters of a program's last line."""


async def pod_reason(where: Layout, namespace: str, pod: str) -> str:
    """Return the text of `nodeplane why` about a pod. Raises SupervisorError, UsageError."""
    diagnosis = await diagnose(where, WhyTarget("pod", pod, namespace))
    return "\n".join(printable(line) for line in lines(diagnosis))


async def plugin_reason(where: Layout, resource: str) -> str:
    """Return the state of a resource's plugin with the reason. Raises SupervisorError."""
    async with connected(where) as sources:
        [evidence] = plugin_evidence(await sources.device_manager(), [resource], sources.now())
    return printable(plugin_sentence(evidence))


def devices_sentence(resource: str, rows: Sequence[DeviceRow], offered: str) -> str:
    """Return which devices of a resource there are, and how many of them the API offers."""
    mine = [row for row in rows if row.resource == resource]
    if not mine:
        others = sorted({row.resource for row in rows})
        return "There is no device of it" + (f", only of {', '.join(others)}" if others else "")
    shown = [f"{row.device} {row.health}" + (f" ({row.message})" if row.message else "") for row in mine[:MAX_DEVICES]]
    more = [f"{len(mine) - MAX_DEVICES} more"] if len(mine) > MAX_DEVICES else []
    return printable(f"There are {', '.join([*shown, *more])}; the API offers {offered or 'none'}")


def waiting_pod(pods: Iterable[Mapping[str, Any]]) -> str:
    """Return the name of the newest pod that neither is ready nor has succeeded; empty if there is none."""
    late = [pod for pod in pods if condition(pod, "Ready") != "True" and pod["status"].get("phase") != "Succeeded"]
    return max(((str(pod["metadata"]["creationTimestamp"]), name_of(pod)) for pod in late), default=("", ""))[1]


def first_line_with(text: str, sentence: str) -> str:
    """Return a text with a sentence at the end of its first line."""
    first, _, rest = text.partition("\n")
    return "\n".join(filter(None, (". ".join(filter(None, (first, sentence))), rest)))


def programs_sentence(programs: Iterable[Process]) -> str:
    """Return which programs have ended, each with its last line; empty if all run."""
    return printable("; ".join(_ended(program) for program in programs if not program.runs))


def _ended(program: Process) -> str:
    lines = [line.strip() for line in program.output.splitlines() if line.strip()]
    return f"{program.name} has ended with {program.wait(0)}" + (
        f", its last line: {lines[-1][:MAX_LINE]}" if lines else ""
    )
