"""metrics.k8s.io: what each node says of itself and its pods at /stats/summary, as `kubectl top` wants it."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import aiohttp
import msgspec

from actors.apiserver.answers.render import dump
from actors.apiserver.connect.location import Location, address
from actors.apiserver.connect.node_client import NodeClient
from actors.apiserver.endpoints.types import Reply, Request
from actors.apiserver.errors.answers import ApiFault, NotFound
from actors.apiserver.objects.paths import Obj, at, text
from protocols.kube.status import StatusError

ANSWER_S = 5.0
"""A node that takes longer is left out."""
AT_ONCE = 32
LARGEST = 64 * 1024 * 1024
PATH = "/stats/summary"


class Usage:
    """`nodes` and `pods`: what the replicas show."""

    def __init__(
        self, client: NodeClient, nodes: Callable[[], Iterable[Obj]], pod: Callable[[str], Obj | None]
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._pod = pod
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def get(self, request: Request) -> Reply:
        """Raises NotFound."""
        target = request.target
        for item in await self._items(request):
            metadata = item["metadata"]
            if metadata["name"] == target.name and metadata.get("namespace", "") == (target.namespace or ""):
                return Reply(dump(item))
        raise NotFound(f'{target.resource.full_name} "{target.name}" not found')

    async def every(self, request: Request) -> Reply:
        row = request.target.resource
        items = [item for item in await self._items(request) if request.wanted.matches_object(item)]
        body = {"kind": row.listing, "apiVersion": row.api_version, "metadata": {}, "items": items}
        return Reply(dump(body))

    async def _items(self, request: Request) -> list[Obj]:
        row, namespace = request.target.resource, request.target.namespace
        nodes = list(self._nodes())
        told = zip(nodes, await asyncio.gather(*(self._ask(node) for node in nodes)), strict=True)
        if not row.namespaced:
            return [_item(row.kind, node, answer["node"], answer) for node, answer in told if answer.get("node")]
        found = []
        for _, answer in told:
            for usage in answer.get("pods") or ():
                if namespace in ("", None, at(usage, "podRef", "namespace")):
                    found.append(_pod(row.kind, self._pod, usage, answer))
        return sorted(filter(None, found), key=lambda item: (item["metadata"]["namespace"], item["metadata"]["name"]))

    async def _ask(self, node: Obj) -> Obj:
        """Nothing of a node that does not answer: the others are told all the same."""
        name = text(node, "metadata", "name")
        try:
            where = Location(name, *address(name, node), PATH, ())
            async with self._slots, asyncio.timeout(ANSWER_S), await self._client.get(where) as answer:
                if answer.status != 200:
                    return {}
                found: Any = msgspec.json.decode(await answer.content.read(LARGEST))
                return found if isinstance(found, dict) else {}
        except (ApiFault, StatusError, aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError):
            return {}


def _pod(kind: str, pod: Callable[[str], Obj | None], usage: Obj, answer: Obj) -> Obj:
    """Nothing of a pod the API no longer has."""
    shown = pod(f"{at(usage, 'podRef', 'namespace')}/{at(usage, 'podRef', 'name')}")
    if shown is None or not usage.get("containers"):
        return {}
    item = _item(kind, shown, usage, answer)
    del item["usage"]
    item["containers"] = [{"name": c.get("name", ""), "usage": _usage(c)} for c in usage["containers"]]
    return item


def _item(kind: str, obj: Obj, usage: Obj, answer: Obj) -> Obj:
    told = obj.get("metadata") or {}
    kept = {key: told[key] for key in ("name", "namespace", "labels") if told.get(key)}
    taken = at(usage, "cpu", "time")
    return {
        "kind": kind,
        "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {**kept, "creationTimestamp": taken},
        "timestamp": taken,
        "window": f"{float(answer.get('window') or 0):.3f}s",
        "usage": _usage(usage),
    }


def _usage(figures: Obj) -> dict[str, str]:
    cores, memory = at(figures, "cpu", "usageNanoCores"), at(figures, "memory", "workingSetBytes")
    return {"cpu": f"{int(cores or 0)}n", "memory": f"{int(memory or 0) // 1024}Ki"}
