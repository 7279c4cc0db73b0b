"""kubelet's `/stats/summary`: usage of the node, its pods and their containers, as JSON. Pure."""

from typing import Any

from actors.podworker.stats.sampler import Container, Sample, Usage
from protocols.kube.times import format_ns


def summary(node: str, sample: Sample) -> dict[str, Any]:
    pods: dict[str, list[Container]] = {}
    for container in sample.containers:
        pods.setdefault(container.uid, []).append(container)
    return {"node": {"nodeName": node, **_figures(sample.node)}, "pods": [_pod(found) for found in pods.values()]}


def _pod(containers: list[Container]) -> dict[str, Any]:
    first, usages = containers[0], [container.usage for container in containers]
    total = Usage(
        at_ns=max(usage.at_ns for usage in usages),
        cpu_ns=sum(usage.cpu_ns for usage in usages),
        working=sum(usage.working for usage in usages),
        resident=sum(usage.resident for usage in usages),
        nanocores=sum(usage.nanocores for usage in usages),
    )
    return {
        "podRef": {"name": first.pod, "namespace": first.namespace, "uid": first.uid},
        "containers": [{"name": container.name, **_figures(container.usage)} for container in containers],
        **_figures(total),
    }


def _figures(usage: Usage) -> dict[str, Any]:
    at, working = format_ns(usage.at_ns), usage.working
    return {
        "cpu": {"time": at, "usageNanoCores": usage.nanocores, "usageCoreNanoSeconds": usage.cpu_ns},
        "memory": {"time": at, "workingSetBytes": working, "usageBytes": working, "rssBytes": usage.resident},
    }
