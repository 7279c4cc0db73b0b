"""An eviction writes a pod twice: the condition, then its deletion."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from actors.apiserver.api.errors import Conflict
from actors.apiserver.api.request.target import Target
from actors.apiserver.api.stored import Stored
from actors.apiserver.http.endpoints.evictions import Evicting
from actors.apiserver.writes.budgets import Budgets
from actors.apiserver.writes.delete import DeleteOptions
from protocols.kube.meta import Object
from tests.unit.apiserver.test_apiserver_write_steps import PODS, USER, Lagging, Store, path


def pod(**status: Any) -> Object:
    metadata = {"name": "p", "namespace": "ns", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": status}


class Changing(Store):
    """A store in which the pod becomes ready right after its condition was written."""

    def __init__(self, pods: Lagging, becomes: Object | None) -> None:
        super().__init__(pods)
        self._pods, self._becomes = pods, becomes

    async def update(self, resource: Any, old: Stored, raw: bytes, held: Mapping[bytes, int]) -> Stored:
        await super().update(resource, old, raw, held)
        written = self._pods.newest[old.key] = Stored(old.key, old.rv + 1, raw)
        if self._becomes is not None:
            self._pods.revision = written.rv
            self._pods.store(self._becomes)
        return written


@pytest.mark.parametrize(
    "becomes", [None, pod(conditions=[{"type": "Ready", "status": "True"}])], ids=["stays", "ready"]
)
async def test_pod_that_is_not_as_it_was_judged_is_not_deleted(
    monkeypatch: pytest.MonkeyPatch, becomes: Object | None
) -> None:
    pods = Lagging(PODS, pod(phase="Running"))
    store = Changing(pods, becomes)
    evicting = Evicting(path(monkeypatch, store), cast(Budgets, None), cast(Any, None))
    request: Any = SimpleNamespace(target=Target(PODS, "create", "ns", "p", "eviction"), user=USER)
    judged = DeleteOptions(version=str(pods.newest["ns/p"].rv))
    if becomes is None:
        await evicting._evict(request, judged)
        assert "deletionTimestamp" in pods.newest["ns/p"].obj["metadata"]
    else:
        with pytest.raises(Conflict):
            await evicting._evict(request, judged)
        assert "deletionTimestamp" not in pods.newest["ns/p"].obj["metadata"]
