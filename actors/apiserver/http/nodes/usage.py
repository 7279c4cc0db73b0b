"""metrics.k8s.io: each node reports itself and its pods at /stats/summary, as `kubectl top` wants it.

A node whose report is late, too long or no report is left out: a warning and a log line name it, the others are shown.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import aiohttp
import msgspec

from actors.apiserver.api.errors import ApiError, NotFound
from actors.apiserver.http.connection.requests import Request
from actors.apiserver.http.connection.responses import Reply, encoded_reply
from actors.apiserver.http.nodes.client import NodeClient
from actors.apiserver.http.nodes.location import Location, NodeUnavailable, address
from protocols.kube.errors import StatusError
from protocols.kube.meta import Object
from protocols.kube.objects import text

ANSWER_S = 5.0
"""A node whose whole report takes longer is left out."""
AT_ONCE = 32
ALL_S = 40.0
"""Time for the reports of all nodes, within that of a request; nodes without one by then are left out."""
LARGEST = 4 * 1024 * 1024
"""Bytes of a report: a node of 110 pods needs a twentieth."""
LONGEST_WINDOW = 1e6
LONG = 64 * 1024
"""Longer reports are decoded in a thread."""
LOGGED_NODES, NAMED_NODES = 4096, 5
"""Nodes whose last logged fault is retained, and nodes that a warning names."""
PATH = "/stats/summary"
log = logging.getLogger("apiserver")


class _Cpu(msgspec.Struct):
    time: str | None = None
    usageNanoCores: int | None = None  # upstream's names, here and below


class _Memory(msgspec.Struct):
    workingSetBytes: int | None = None


class _Measurement(msgspec.Struct):
    name: str = ""
    cpu: _Cpu | None = None
    memory: _Memory | None = None

    @property
    def taken(self) -> str | None:
        return self.cpu.time if self.cpu else None

    def shown(self) -> dict[str, str]:
        cores = self.cpu.usageNanoCores if self.cpu else None
        memory = self.memory.workingSetBytes if self.memory else None
        return {"cpu": f"{cores or 0}n", "memory": f"{(memory or 0) // 1024}Ki"}


class _PodReference(msgspec.Struct):
    name: str
    namespace: str


class _PodMeasurement(_Measurement, kw_only=True):
    podRef: _PodReference
    containers: list[_Measurement] | None = None


class Summary(msgspec.Struct):
    """A report of /stats/summary; other fields are ignored."""

    node: _Measurement | None = None
    pods: list[_PodMeasurement] | None = None
    window: Any = None
    """Seconds. Not declared as float: such numbers are not read by the decoder's hook."""

    @property
    def seconds(self) -> float:
        return min(self.window, LONGEST_WINDOW) if isinstance(self.window, float | int) else 0.0


class TooLong(ApiError):
    """Raised for a report of more than LARGEST bytes; the node is left out."""


Found = list[tuple[Object, Summary]]


class Usage:
    """The endpoint of metrics.k8s.io; `nodes` and `pod` read the replicas."""

    def __init__(
        self,
        client: NodeClient,
        nodes: Callable[[], Iterable[Object]],
        pod: Callable[[str], Object | None],
        answer_s: float = ANSWER_S,
    ) -> None:
        self._client, self._nodes, self._pod, self._answer_s = client, nodes, pod, answer_s
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._silent: dict[str, str] = {}
        """Why nodes are left out, by name: logged once until it changes."""

    async def get(self, request: Request) -> Reply:
        """Raises NotFound."""
        target = request.target
        pod = self._pod(f"{target.namespace}/{target.name}") if target.resource.namespaced else None
        node = text(pod, "spec", "nodeName") if target.resource.namespaced else target.name
        named = (obj for obj in self._nodes() if text(obj, "metadata", "name") == node)
        reports, left_out = await self._ask_all(named)
        for item in self._items(request, reports):
            metadata = item["metadata"]
            if metadata["name"] == target.name and metadata.get("namespace", "") == (target.namespace or ""):
                return await encoded_reply(item, request.form)
        raise NotFound(f'{target.resource.full_name} "{target.name}" not found{"".join(f": {w}" for w in left_out)}')

    async def every(self, request: Request) -> Reply:
        row = request.target.resource
        reports, left_out = await self._ask_all(self._nodes())
        items = [item for item in self._items(request, reports) if request.wanted.matches_object(item)]
        body = {"kind": row.list_kind, "apiVersion": row.api_version, "metadata": {}, "items": items}
        return await encoded_reply(body, request.form, warnings=left_out)

    def _items(self, request: Request, reports: Found) -> list[Object]:
        row, namespace = request.target.resource, request.target.namespace
        if not row.namespaced:
            return [_item(row.kind, node, report.node, report) for node, report in reports if report.node]
        pods = (item for node, report in reports for item in self._pods(row.kind, node, report, namespace))
        return sorted(pods, key=lambda item: (item["metadata"]["namespace"], item["metadata"]["name"]))

    def _pods(self, kind: str, node: Object, report: Summary, namespace: str) -> Iterator[Object]:
        """Return the usage of the pods that run on the node, each once; others are dropped."""
        named = {(pod.podRef.namespace, pod.podRef.name): pod for pod in report.pods or ()}
        for (space, name), figures in named.items():
            shown = self._pod(f"{space}/{name}") if namespace in ("", None, space) else None
            if shown and figures.containers and text(shown, "spec", "nodeName") == text(node, "metadata", "name"):
                item = _item(kind, shown, figures, report)
                del item["usage"]
                item["containers"] = [
                    {"name": container.name, "usage": container.shown()} for container in figures.containers
                ]
                yield item

    async def _ask_all(self, nodes: Iterable[Object]) -> tuple[Found, list[str]]:
        """Return the reports, and a warning for each reason why nodes have none."""
        asked, end = list(nodes), asyncio.get_running_loop().time() + ALL_S
        answers = await asyncio.gather(*(self._ask(node, end) for node in asked))
        reports: Found = []
        silent: dict[str, list[str]] = {}
        for node, answer in zip(asked, answers, strict=True):
            if isinstance(answer, Summary):
                reports.append((node, answer))
            else:
                silent.setdefault(answer, []).append(f'"{text(node, "metadata", "name")}"')
        return reports, [_left_out(names, why) for why, names in silent.items()]

    async def _ask(self, node: Object, end: float) -> Summary | str:
        """Return the report of a node, or why there is none."""
        name = text(node, "metadata", "name")
        try:
            async with asyncio.timeout_at(end), self._slots:
                answer = await self._report(name, node)
        except TimeoutError:
            answer = f"there is no report within {ALL_S:g} s, the time for all nodes"
        if isinstance(answer, Summary):
            self._silent.pop(name, None)
        elif self._silent.get(name) != answer:
            log.warning("node left out of usage node=%s reason=%s", name, answer)
            if len(self._silent) >= LOGGED_NODES:  # nodes that were removed are among them
                self._silent.clear()
            self._silent[name] = answer
        return answer

    async def _report(self, name: str, node: Object) -> Summary | str:
        try:
            where = Location(name, *address(name, node), PATH, ())
            async with asyncio.timeout(self._answer_s), await self._client.get(where) as answer:
                if answer.status != 200:
                    return f"it answers {answer.status}"
                return await _decoded(await _body(answer))
        except TimeoutError:
            return f"its report takes longer than {self._answer_s:g} s"
        except NodeUnavailable as error:
            return f"it {error.fault}"
        except (ApiError, StatusError, aiohttp.ClientError, OSError) as error:
            return " ".join(str(error).split())
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return f"its report cannot be read: {error}"


def _left_out(names: Sequence[str], why: str) -> str:
    if len(names) == 1:
        return f"node {names[0]} is left out: {why}"
    more = ", ..." if len(names) > NAMED_NODES else ""
    return f"{len(names)} nodes are left out ({', '.join(names[:NAMED_NODES])}{more}): {why}"


async def _body(answer: aiohttp.ClientResponse) -> bytes:
    """Raises TooLong."""
    body = bytearray()
    async for part in answer.content.iter_any():
        body += part
        if len(body) > LARGEST:
            raise TooLong(f"its report is longer than {LARGEST} bytes")
    return bytes(body)


async def _decoded(body: bytes) -> Summary:
    if len(body) <= LONG:
        return _decode(body)
    return await asyncio.to_thread(_decode, body)


_decode = msgspec.json.Decoder(Summary, float_hook=float).decode


def _item(kind: str, obj: Object, figures: _Measurement, report: Summary) -> Object:
    metadata = obj.get("metadata") or {}
    kept = {key: metadata[key] for key in ("name", "namespace", "labels") if metadata.get(key)}
    return {
        "kind": kind,
        "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {**kept, "creationTimestamp": figures.taken},
        "timestamp": figures.taken,
        "window": f"{report.seconds:.3f}s",
        "usage": figures.shown(),
    }
