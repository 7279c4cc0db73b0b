"""Serve kubelet's metrics pages: /metrics, /metrics/resource and /metrics/probes.

What kubelet counts in one process, several count here: /metrics joins the upstream-named families of this node's
processes. Those named nodeplane_ are on the supervisor's page (--metrics-port).
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping

from aiohttp import web
from prometheus_client import CollectorRegistry

from actors.podworker.endpoint.errors import RuntimeUnavailable, StreamTargetMissing
from actors.podworker.endpoint.stats import MeasuredContainer, Sample, UsageSampler
from protocols.actor.metrics_text import page
from protocols.bus import Bus, BusError
from protocols.messages.pleg import PodStatus
from protocols.messages.supervisor import METRICS, Empty, MetricsText
from protocols.process.tasks import shared

TEXT = "text/plain; version=0.0.4"
PEERS = ("cri", "pleg", "devices", "health", "frontdoor")
"""Processes of this node whose metrics kubelet has."""
ANSWER_S = 2.0
FOREIGN = ("nodeplane_", "python_", "process_")
PROBES = "prober_"
KINDS = ("resource", "probes")


class MetricsPages:
    """The pages; those of other actors are asked over the bus."""

    def __init__(
        self,
        bus: Bus,
        registry: CollectorRegistry,
        node: str,
        sampler: UsageSampler,
        status: Callable[[str], PodStatus | None],
    ) -> None:
        self._bus = bus
        self._registry = registry
        self._node = node
        self._sampler = sampler
        self._status = status
        self._task: asyncio.Task[str] | None = None

    async def serve(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        kind = "/".join(path)
        if kind == "":
            return _text(await self._shared_page())
        if kind == "probes":
            return _text("".join(families(await page(self._registry), lambda name: name.startswith(PROBES))))
        if kind != "resource":
            raise StreamTargetMissing(f"the node serves /metrics, {_listed()}, not /metrics/{kind}")
        try:
            sample = await self._sampler.sample()
        except BusError as error:
            raise RuntimeUnavailable(str(error)) from None
        return _text(resource_page(sample, self._started))

    async def _shared_page(self) -> str:
        """Return one page to all concurrent requests, since it asks every process."""
        if self._task is None or self._task.done():
            self._task = shared(self._page(), "metrics page")
        return await asyncio.shield(self._task)

    async def _page(self) -> str:
        texts = await asyncio.gather(*(self._ask(name) for name in PEERS))
        own = families(await page(self._registry), lambda name: not name.startswith((*FOREIGN[:2], PROBES)))
        joined = {text.split(" ", 3)[2]: text for text in (*own, *_upstream(texts))}
        name = f'kubelet_node_name{{node="{self._node}"}} 1\n'
        return "".join(joined.values()) + _head("kubelet_node_name", "gauge", "The node's name.") + name

    async def _ask(self, name: str) -> str:
        try:
            return (await self._bus.call(name, METRICS, Empty(), MetricsText, timeout=ANSWER_S, idempotent=True)).text
        except BusError:
            return ""

    def _started(self, container: MeasuredContainer) -> float:
        """Return the start of a container in seconds since the epoch; 0 if it is not known."""
        known = self._status(container.uid)
        runs = known.containers if known else ()
        return next((run.started_ns / 1e9 for run in runs if run.id == container.id), 0.0)


def _upstream(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from families(text, lambda name: not name.startswith(FOREIGN))


def families(text: str, wanted: Callable[[str], bool]) -> list[str]:
    """Return the families of a metrics page that have a wanted name, each as its HELP line and all that follows it."""
    blocks = text.split("# HELP ")[1:]
    return [f"# HELP {block}" for block in blocks if wanted(block.split(" ", 1)[0])]


def resource_page(sample: Sample, started: Callable[[MeasuredContainer], float]) -> str:
    """Return kubelet's page of resource usage; samples carry the time of their measurement."""
    lines: dict[str, list[str]] = {name: [] for name in RESOURCES}
    at = sample.node.at_ns // 1_000_000
    lines["node_cpu_usage_seconds_total"].append(f"node_cpu_usage_seconds_total {sample.node.cpu_ns / 1e9} {at}")
    lines["node_memory_working_set_bytes"].append(f"node_memory_working_set_bytes {sample.node.working} {at}")
    pods: dict[tuple[str, str], list[MeasuredContainer]] = {}
    for container in sample.containers:
        pods.setdefault((container.namespace, container.pod), []).append(container)
        _container(lines, container, started(container))
    for (namespace, name), containers in pods.items():
        _pod(lines, {"namespace": namespace, "pod": name}, containers)
    lines["resource_scrape_error"].append("resource_scrape_error 0")
    return "".join(
        _head(name, *RESOURCES[name]) + "".join(f"{line}\n" for line in samples)
        for name, samples in lines.items()
        if samples
    )


RESOURCES = {
    "container_cpu_usage_seconds_total": ("counter", "Cumulative CPU time of the container in core-seconds."),
    "container_memory_working_set_bytes": ("gauge", "Working set of the container in bytes."),
    "container_start_time_seconds": ("gauge", "Start of the container, seconds since the epoch."),
    "node_cpu_usage_seconds_total": ("counter", "Cumulative CPU time of the node in core-seconds."),
    "node_memory_working_set_bytes": ("gauge", "Working set of the node in bytes."),
    "pod_cpu_usage_seconds_total": ("counter", "Cumulative CPU time of the pod in core-seconds."),
    "pod_memory_working_set_bytes": ("gauge", "Working set of the pod in bytes."),
    "resource_scrape_error": ("gauge", "1 if there was an error while getting the metrics of containers."),
}


def _container(lines: Mapping[str, list[str]], container: MeasuredContainer, started: float) -> None:
    usage = container.usage
    named = {"container": container.name, "namespace": container.namespace, "pod": container.pod}
    labels, at = _labels(named), usage.at_ns // 1_000_000
    cpu, memory = "container_cpu_usage_seconds_total", "container_memory_working_set_bytes"
    lines[cpu].append(f"{cpu}{labels} {usage.cpu_ns / 1e9} {at}")
    lines[memory].append(f"{memory}{labels} {usage.working} {at}")
    if started:
        lines["container_start_time_seconds"].append(f"container_start_time_seconds{labels} {started} {at}")


def _pod(lines: Mapping[str, list[str]], named: Mapping[str, str], containers: list[MeasuredContainer]) -> None:
    usages = [container.usage for container in containers]
    labels, at = _labels(named), max(usage.at_ns for usage in usages) // 1_000_000
    cpu, memory = "pod_cpu_usage_seconds_total", "pod_memory_working_set_bytes"
    lines[cpu].append(f"{cpu}{labels} {sum(usage.cpu_ns for usage in usages) / 1e9} {at}")
    lines[memory].append(f"{memory}{labels} {sum(usage.working for usage in usages)} {at}")


def _labels(named: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{key}="{_escaped(value)}"' for key, value in named.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _head(name: str, kind: str, help: str) -> str:
    return f"# HELP {name} {help}\n# TYPE {name} {kind}\n"


def _listed() -> str:
    return " and ".join(f"/metrics/{kind}" for kind in KINDS)


def _text(text: str) -> web.Response:
    return web.Response(body=text.encode(), headers={"Content-Type": f"{TEXT}; charset=utf-8"})
