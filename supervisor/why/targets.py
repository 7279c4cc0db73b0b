"""Targets of `nodeplane why`: their kinds, and the function that diagnoses each."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from supervisor.base.errors import UsageError, did_you_mean
from supervisor.why.gather.others import gather_claim, gather_device, gather_node, gather_plugin
from supervisor.why.gather.pod import gather_pod
from supervisor.why.gather.sources import Sources
from supervisor.why.model.types import Diagnosis, DriverEvidence, Finding
from supervisor.why.others.claims import diagnose_claim
from supervisor.why.others.devices import diagnose_device, diagnose_driver
from supervisor.why.others.nodes import diagnose_node
from supervisor.why.others.plugins import diagnose_plugin
from supervisor.why.pods.diagnose import diagnose_pod


class WhyTarget(NamedTuple):
    """An object to explain, by kind and name; the namespace is empty for kinds without one."""

    kind: str
    name: str
    namespace: str


async def _pod(sources: Sources, target: WhyTarget) -> Diagnosis:
    return diagnose_pod(await gather_pod(sources, target.namespace, target.name))


async def _device(sources: Sources, target: WhyTarget) -> Diagnosis:
    return _diagnosis(f"device/{target.name}", diagnose_device(await gather_device(sources, target.name)))


async def _claim(sources: Sources, target: WhyTarget) -> Diagnosis:
    evidence = await gather_claim(sources, target.namespace, target.name)
    return _diagnosis(f"claim/{evidence.key}", diagnose_claim(evidence))


async def _node(sources: Sources, target: WhyTarget) -> Diagnosis:
    return _diagnosis(f"node/{target.name}", diagnose_node(await gather_node(sources, target.name)))


async def _plugin(sources: Sources, target: WhyTarget) -> Diagnosis:
    evidence = await gather_plugin(sources, target.name)
    finding = diagnose_driver(evidence) if isinstance(evidence, DriverEvidence) else diagnose_plugin(evidence)
    return _diagnosis(f"plugin/{target.name}", finding)


def _diagnosis(target: str, found: Finding) -> Diagnosis:
    return Diagnosis(target, found.state, found.reason, found.evidence, found.advice)


KINDS: dict[str, Callable[[Sources, WhyTarget], Awaitable[Diagnosis]]] = {
    "pod": _pod,
    "device": _device,
    "claim": _claim,
    "node": _node,
    "plugin": _plugin,
}


NAMESPACED = ("pod", "claim")


def target_of(text: str, namespace: str) -> WhyTarget:
    """Read KIND/NAME or KIND/NAMESPACE/NAME, KIND also as `kubectl get -o name` prints it; a name alone is a pod's.

    Raises UsageError.
    """
    kind, slash, name = text.partition("/")
    if not slash:
        kind, name = "pod", text
    kind = kind.partition(".")[0].removesuffix("s").removeprefix("resource")
    if kind in NAMESPACED and "/" in name:  # as an answer names its target
        namespace, _, name = name.partition("/")
    if kind not in KINDS or not name:
        hint = did_you_mean(kind, {known: f"{known}/{name}" for known in KINDS}) if kind not in KINDS else ""
        raise UsageError(f"{text!r} names no target; {hint}give KIND/NAME, KIND one of {', '.join(KINDS)}")
    return WhyTarget(kind, name, namespace)
