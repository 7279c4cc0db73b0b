"""Quotas, limit ranges, disruption budgets and priority classes: two API servers, the controllers, real kubectl."""

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import aiohttp
import pytest

from tests.support.apiserver_plane import Plane, running_plane

Json = dict[str, Any]
REQUESTS = {"requests": {"cpu": "100m"}, "limits": {"cpu": "100m"}}


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with running_plane() as running:
        running.spawn("apiserver-1")
        running.spawn("controllers")
        yield running


@pytest.fixture
async def api(plane: Plane) -> AsyncIterator["Api"]:
    async with plane.client() as session:
        yield Api(plane, session)


class Api:
    def __init__(self, plane: Plane, session: aiohttp.ClientSession) -> None:
        self.plane, self._session = plane, session

    async def call(self, method: str, path: str, body: Any = None, patch: str = "") -> tuple[int, Json]:
        headers = {"Content-Type": f"application/{patch}-patch+json"} if patch else {}
        async with self._session.request(method, path, json=body, headers=headers) as answer:
            return answer.status, await answer.json()

    async def make(self, path: str, body: Json) -> Json:
        code, obj = await self.call("POST", path, body)
        assert code == 201, obj
        return obj

    async def namespace(self, name: str) -> str:
        await self.make("/api/v1/namespaces", {"metadata": {"name": name}})
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        await self.until(lambda: self.call("GET", account), lambda found: found[0] == 200)
        return f"/api/v1/namespaces/{name}"

    async def until(self, ask: Callable[[], Any], good: Callable[[Any], Any], timeout: float = 60.0) -> Any:
        end = time.monotonic() + timeout
        while not good(found := await ask()):
            assert time.monotonic() < end, f"{found}\n{self.plane.logs()}"
            await asyncio.sleep(0.05)
        return found

    async def quota(self, path: str, hard: dict[str, str], **spec: Any) -> str:
        """Make a quota and wait for its first usage."""
        await self.make(f"{path}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}})
        where = f"{path}/resourcequotas/q"
        await self.until(lambda: self.call("GET", where), lambda found: (found[1].get("status") or {}).get("used"))
        return where

    async def used(self, where: str, want: dict[str, str]) -> None:
        await self.until(lambda: self.call("GET", where), lambda found: found[1]["status"]["used"] == want)


def pod(name: str, labels: Json | None = None, **spec: Any) -> Json:
    containers = [{"name": "c", "image": "x", "resources": REQUESTS}]
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {"containers": containers, **spec}}


async def test_quota_under_a_race_of_two_api_servers_never_overshoots(api: Api) -> None:
    path = await api.namespace("race")
    where = await api.quota(path, {"pods": "7", "requests.cpu": "2"})
    answers = await asyncio.gather(*(api.call("POST", f"{path}/pods", pod(f"p{i}")) for i in range(60)))
    codes = [code for code, _ in answers]
    assert (codes.count(201), codes.count(403)) == (7, 53), codes
    assert next(obj["message"] for code, obj in answers if code == 403).endswith(
        "is forbidden: exceeded quota: q, requested: pods=1, used: pods=7, limited: pods=7"
    )
    await api.used(where, {"pods": "7", "requests.cpu": "700m"})
    assert len((await api.call("GET", f"{path}/pods"))[1]["items"]) == 7
    gone = [obj["metadata"]["name"] for code, obj in answers if code == 201][:3]
    await asyncio.gather(*(api.call("DELETE", f"{path}/pods/{name}") for name in gone))
    await api.used(where, {"pods": "4", "requests.cpu": "400m"})
    assert (await api.call("POST", f"{path}/pods", pod("again")))[0] == 201


async def test_quota_counts_objects_of_every_kind_and_gives_back(api: Api) -> None:
    path = await api.namespace("kinds")
    claims = "/apis/resource.k8s.io/v1/namespaces/kinds/resourceclaims"
    hard = {"count/configmaps": "3", "services.nodeports": "1", "gpu.deviceclass.resource.k8s.io/devices": "3"}
    where = await api.quota(path, {**hard, "count/leases.coordination.k8s.io": "1"})
    used = (await api.call("GET", where))[1]["status"]["used"]
    assert used["count/configmaps"] == "1"  # kube-root-ca.crt
    leases = "/apis/coordination.k8s.io/v1/namespaces/kinds/leases"
    await api.make(leases, {"metadata": {"name": "a"}})
    code, fault = await api.call("POST", leases, {"metadata": {"name": "b"}})
    assert (code, fault["reason"]) == (403, "Forbidden")
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}
    claim = {"metadata": {"name": "a"}, "spec": {"devices": {"requests": [request]}}}
    await api.make(claims, claim)
    code, fault = await api.call("POST", claims, {**claim, "metadata": {"name": "b"}})
    assert "requested: gpu.deviceclass.resource.k8s.io/devices=2" in fault["message"]
    service: Json = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}, {"port": 81, "name": "b"}]}}
    service["spec"]["ports"][0]["name"] = "a"
    await api.make(f"{path}/services", service)
    patch = {"spec": {"type": "NodePort"}}
    code, fault = await api.call("PATCH", f"{path}/services/s", patch, patch="merge")
    assert (code, "services.nodeports=2" in fault["message"]) == (403, True)
    await api.call("DELETE", f"{claims}/a")
    await api.call("DELETE", f"{leases}/a")
    await api.used(
        where,
        {
            "count/configmaps": "1",
            "services.nodeports": "0",
            "gpu.deviceclass.resource.k8s.io/devices": "0",
            "count/leases.coordination.k8s.io": "0",
        },
    )


async def test_quota_of_cpu_requires_requests_unless_a_limit_range_sets_them(api: Api) -> None:
    path = await api.namespace("must")
    where = await api.quota(path, {"limits.cpu": "1"}, scopes=["NotBestEffort"])
    bare = {"metadata": {"name": "bare"}, "spec": {"containers": [{"name": "c", "image": "x", "resources": {}}]}}
    partly = {"requests": {"cpu": "1m"}}
    half = {"metadata": {"name": "half"}, "spec": {"containers": [{"name": "c", "image": "x", "resources": partly}]}}
    assert (await api.call("POST", f"{path}/pods", bare))[0] == 201, "out of scope"
    code, fault = await api.call("POST", f"{path}/pods", half)
    assert (code, fault["message"]) == (
        403, 'pods "half" is forbidden: failed quota: q: must specify limits.cpu for: c'
    )  # fmt: skip
    limits = {"limits": [{"type": "Container", "default": {"cpu": "600m"}, "max": {"cpu": "700m"}}]}
    await api.make(f"{path}/limitranges", {"metadata": {"name": "l"}, "spec": limits})
    created = await api.until(lambda: api.call("POST", f"{path}/pods", half), lambda found: found[0] == 201)
    assert created[1]["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu limit for container c"
    }
    await api.used(where, {"limits.cpu": "600m"})
    code, fault = await api.call("POST", f"{path}/pods?dryRun=All", {**half, "metadata": {"name": "other"}})
    assert "exceeded quota: q, requested: limits.cpu=600m, used: limits.cpu=600m, limited: limits.cpu=1" in str(fault)
    for cpu, text in (("2", "maximum cpu usage per Container is 700m, but limit is 2"), ("650m", "")):
        resized = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": cpu}}}]}}
        code, fault = await api.call("PATCH", f"{path}/pods/half/resize", resized, patch="strategic-merge")
        assert (code == 200, text in str(fault)) == (not text, True), fault
    await api.used(where, {"limits.cpu": "650m"})


async def test_priority_of_pods_comes_from_their_class(api: Api) -> None:
    path = await api.namespace("priority")
    critical = await api.make(f"{path}/pods", pod("critical", priorityClassName="system-node-critical"))
    assert (critical["spec"]["priority"], critical["spec"]["preemptionPolicy"]) == (2000001000, "PreemptLowerPriority")
    assert (await api.make(f"{path}/pods", pod("plain")))["spec"]["priority"] == 0
    code, fault = await api.call("POST", f"{path}/pods", pod("unknown", priorityClassName="no"))
    assert (code, fault["message"]) == (
        403, 'pods "unknown" is forbidden: no PriorityClass with name no was found'
    )  # fmt: skip
    code, fault = await api.call("DELETE", "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical")
    assert code == 403


async def ready(api: Api, path: str, name: str) -> None:
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    code, _ = await api.call("PATCH", f"{path}/pods/{name}/status", {"status": status}, patch="merge")
    assert code == 200


async def budget(api: Api, namespace: str, **spec: Any) -> str:
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    await api.make(path, {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "a"}}, **spec}})
    return f"{path}/b"


async def allowed(api: Api, where: str, count: int) -> Json:
    def good(found: tuple[int, Json]) -> bool:
        status = found[1].get("status") or {}
        return bool(status.get("observedGeneration")) and status.get("disruptionsAllowed") == count

    return dict((await api.until(lambda: api.call("GET", where), good))[1]["status"])


async def evict(api: Api, path: str, name: str, **options: Any) -> tuple[int, Json]:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options}
    return await api.call("POST", f"{path}/pods/{name}/eviction", body)


async def test_evictions_under_a_race_of_two_api_servers_keep_the_budget(api: Api) -> None:
    path = await api.namespace("evict")
    names = [f"p{i}" for i in range(6)]
    for name in names:
        await api.make(f"{path}/pods", pod(name, {"app": "a"}))
        await ready(api, path, name)
    where = await budget(api, "evict", minAvailable=4)
    status = await allowed(api, where, 2)
    assert (status["currentHealthy"], status["desiredHealthy"], status["expectedPods"]) == (6, 4, 6)
    assert status["conditions"][0]["reason"] == "SufficientPods"
    assert (await evict(api, path, "p0", dryRun=["All"]))[0] == 201
    answers = await asyncio.gather(*(evict(api, path, name) for name in names))
    codes = [code for code, _ in answers]
    assert (codes.count(201), codes.count(429)) == (2, 4), answers
    status = await allowed(api, where, 0)
    refused = next(obj for code, obj in answers if code == 429)
    assert refused["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    assert refused["details"]["causes"][0]["reason"] == "DisruptionBudget"
    left = [item["metadata"]["name"] for item in (await api.call("GET", f"{path}/pods"))[1]["items"]]
    await api.until(lambda: api.call("GET", where), lambda found: found[1]["status"]["currentHealthy"] == 4)
    _, fault = await evict(api, path, left[0])
    assert fault["details"]["causes"] == [
        {"reason": "DisruptionBudget", "message": "The disruption budget b needs 4 healthy pods and has 4 currently"}
    ]
    waiting = await api.make(f"{path}/pods", pod("pending", {"app": "a"}))
    assert (await evict(api, path, waiting["metadata"]["name"]))[0] == 201
    second = {"metadata": {"name": "c"}, "spec": {"selector": {}, "minAvailable": 1}}
    await api.make("/apis/policy/v1/namespaces/evict/poddisruptionbudgets", second)
    _, fault = await api.until(lambda: evict(api, path, left[0]), lambda found: found[0] == 500)
    assert "more than one PodDisruptionBudget" in fault["message"]


async def test_eviction_waits_until_its_api_server_knows_the_newest_budgets(api: Api) -> None:
    """It was granted without a budget that had just been created and that the replica did not show yet.

    An API server knows its own writes at once, but not behind one of several keys, such as a Service and its address.
    """
    path, cache = await api.namespace("late"), api.plane.processes["watchcache"]
    await api.make(f"{path}/pods", pod("p", {"app": "a"}))
    await ready(api, path, "p")
    cache.send_signal(signal.SIGSTOP)
    try:
        await api.make(f"{path}/services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
        made = {"metadata": {"name": "b"}, "spec": {"selector": {}, "minAvailable": 1}}
        await api.make("/apis/policy/v1/namespaces/late/poddisruptionbudgets", made)
        assert (await evict(api, path, "p"))[0] == 504
    finally:
        cache.send_signal(signal.SIGCONT)
    assert (await evict(api, path, "p"))[0] == 429


async def test_kubectl_drain_waits_for_the_budget_of_a_replica_set(api: Api) -> None:
    path = await api.namespace("drain")
    plane = api.plane
    await api.make("/api/v1/nodes", {"metadata": {"name": "drained"}})
    template = {"metadata": {"labels": {"app": "a"}}, "spec": pod("x")["spec"]}
    body: Json = {"metadata": {"name": "rs"}, "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}}}
    body["spec"]["template"] = template
    owner = await api.make("/apis/apps/v1/namespaces/drain/replicasets", body)
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": owner["metadata"]["uid"]}
    for name in ("a", "b"):
        new = pod(name, {"app": "a"}, nodeName="drained", terminationGracePeriodSeconds=0)
        new["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
        await api.make(f"{path}/pods", new)
        await ready(api, path, name)
    where = await budget(api, "drain", maxUnavailable="50%")
    assert (await allowed(api, where, 1))["expectedPods"] == 2
    drained = await asyncio.create_subprocess_exec(
        *plane.command("drain", "drained", "--force", "--grace-period=0", "--pod-selector=app=a", "--timeout=90s"),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=plane.environment,
    )  # fmt: skip
    await api.until(
        lambda: api.call("GET", f"{path}/pods?fieldSelector=spec.nodeName=drained"),
        lambda found: len(found[1]["items"]) == 1,
    )
    await api.make(f"{path}/pods", (other := pod("new", {"app": "a"}, nodeName="elsewhere")) | {
        "metadata": {**other["metadata"], "ownerReferences": [{**reference, "controller": True}]}
    })  # fmt: skip
    await ready(api, path, "new")
    said = (await asyncio.wait_for(drained.communicate(), 90))[0].decode()
    assert drained.returncode == 0, said
    assert "Cannot evict pod as it would violate the pod's disruption budget." in said


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_kubectl_creates_and_describes_policies(plane: Plane) -> None:
    plane.kubectl("create", "quota", "mine", "--hard=pods=2,count/secrets=5")
    plane.kubectl("create", "pdb", "mine", "--selector=app=mine", "--min-available=1")
    plane.kubectl("create", "priorityclass", "mine", "--value=7")
    limits = {"limits": [{"type": "Container", "min": {"cpu": "1m"}, "max": {"cpu": "2"}}]}
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "mine"}, "spec": limits}
    plane.kubectl("create", "-f", "-", stdin=json.dumps(body))
    try:
        end = time.monotonic() + 60
        while ["pods", "0", "2"] not in (said := rows(plane.kubectl("describe", "quota", "mine"))):
            assert time.monotonic() < end, said
            time.sleep(0.1)
        assert ["Container", "cpu", "1m", "2", "2", "2", "-"] in rows(plane.kubectl("describe", "limits", "mine"))
        assert plane.kubectl("get", "quota", "mine").split()[:4] == ["NAME", "REQUEST", "LIMIT", "AGE"]
        assert rows(plane.kubectl("get", "priorityclass", "mine"))[1][:3] == ["mine", "7", "false"]
        assert rows(plane.kubectl("get", "pdb", "mine"))[1][:4] == ["mine", "1", "N/A", "0"]
    finally:
        plane.kubectl("delete", "quota,pdb,priorityclass,limits", "mine")


async def test_status_of_an_admission_policy_follows_its_generation(api: Api) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["podtemplates"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]}
    made = await api.make(path, {"metadata": {"name": "seen"}, "spec": spec})
    assert made["status"] == {}

    async def observed(generation: int) -> Json:
        _, found = await api.until(
            lambda: api.call("GET", f"{path}/seen"),
            lambda answer: answer[1].get("status", {}).get("observedGeneration") == generation,
        )
        return dict(found)

    found = await observed(1)
    assert found["status"] == {"observedGeneration": 1, "typeChecking": {}}
    [entry] = [each for each in found["metadata"]["managedFields"] if each.get("subresource") == "status"]
    assert (entry["manager"], entry["operation"]) == ("validatingadmissionpolicy-status", "Apply")
    assert entry["fieldsV1"] == {"f:status": {"f:observedGeneration": {}, "f:typeChecking": {}}}
    code, _ = await api.call("PATCH", f"{path}/seen", {"spec": {"failurePolicy": "Ignore"}}, "merge")
    assert code == 200
    assert (await observed(2))["status"] == {"observedGeneration": 2, "typeChecking": {}}
