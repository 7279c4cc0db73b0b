"""Requests of API operations, and a valid object of each kind to play them with."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from tests.support.waiting import until_async

JSON = {"Content-Type": "application/json"}
DEADLINE = 30.0


async def ask(session: aiohttp.ClientSession, method: str, path: str, body: Any = None, **headers: str) -> Any:
    """Return the answer of a request that must succeed."""
    code, answer = await tried(session, method, path, body, **headers)
    assert code in (200, 201), (method, path, answer)
    return answer


async def tried(
    session: aiohttp.ClientSession, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, Any]:
    sent = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    async with session.request(method, path, data=sent, headers=headers or JSON) as answer:
        return answer.status, await answer.json()


@asynccontextmanager
async def watching(session: aiohttp.ClientSession, path: str, version: str) -> AsyncIterator[aiohttp.StreamReader]:
    join = "&" if "?" in path else "?"
    async with session.get(f"{path}{join}watch=true&resourceVersion={version}") as answer:
        assert answer.status == 200, await answer.text()
        yield answer.content


async def events(stream: aiohttp.StreamReader, count: int) -> list[tuple[str, Any]]:
    found = []
    for _ in range(count):
        event = json.loads(await asyncio.wait_for(stream.readline(), DEADLINE))
        found.append((event["type"], event["object"]))
    return found


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    await until_async("what the operation needs", holds, DEADLINE, 0.05)


CONTAINER = {"name": "c", "image": "i"}
CLAIM = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}
ACCESS = {"accessModes": ["ReadWriteOnce"]}
CSI = {"driver": "csi.example.com", "volumeHandle": "h"}
SLICE = {"driver": "d.example.com", "nodeName": "n", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}
REGARDING = {"namespace": "default", "kind": "Pod", "name": "p"}
REPORTED = {
    "regarding": REGARDING,
    "reason": "r",
    "action": "a",
    "type": "Normal",
    "reportingController": "example.com/c",
    "reportingInstance": "i",
    "eventTime": "2026-01-01T00:00:00.000000Z",
}
ATTACHED = {"attacher": "a.example.com", "nodeName": "n1", "source": {"persistentVolumeName": "pv"}}
TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [CONTAINER]}}
SELECTED = {"template": TEMPLATE, "selector": {"matchLabels": {"app": "a"}}}
ONCE = {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}
CONDITION = {"conditions": [{"type": "Seen", "status": "True"}]}
SEEN_CONDITION = {"type": "Seen", "status": "True", "reason": "R", "message": "m"}
ADMISSION = "admissionregistration.k8s.io"
RULE = {"apiGroups": ["nobody.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["things"]}
MATCHED = {"matchConstraints": {"resourceRules": [RULE]}}
PATCH = {"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}}
VALIDATING = {"validations": [{"expression": "true"}]}
MUTATING = {"reinvocationPolicy": "Never", "mutations": [PATCH]}
KINDS: dict[str, tuple[str, bool, dict[str, Any]]] = {
    "configmaps": ("v1", True, {"data": {"a": "1"}}),
    "secrets": ("v1", True, {"data": {"a": "MQ=="}}),
    "serviceaccounts": ("v1", True, {}),
    "services": ("v1", True, {"spec": {"ports": [{"port": 80}]}}),
    "endpoints": ("v1", True, {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]}),
    "endpointslices": ("discovery.k8s.io/v1", True, {"addressType": "IPv4", "endpoints": []}),
    "events": ("v1", True, {"involvedObject": REGARDING, "reason": "r", "type": "Normal"}),
    "events.k8s.io": ("events.k8s.io/v1", True, REPORTED),
    "leases": ("coordination.k8s.io/v1", True, {"spec": {"holderIdentity": "h"}}),
    "nodes": ("v1", False, {}),
    "pods": ("v1", True, {"spec": {"containers": [CONTAINER]}}),
    "pods with a CSI volume": (
        "v1", True, {"spec": {"containers": [CONTAINER], "volumes": [{"name": "v", "csi": {"driver": "d"}}]}},
    ),
    "persistentvolumes": ("v1", False, {"spec": {**ACCESS, "capacity": {"storage": "1Gi"}, "csi": CSI}}),
    "persistentvolumeclaims": ("v1", True, {"spec": {**ACCESS, "resources": {"requests": {"storage": "1Gi"}}}}),
    "storageclasses": ("storage.k8s.io/v1", False, {"provisioner": "example.com/p"}),
    "csidrivers": ("storage.k8s.io/v1", False, {"spec": {}}),
    "csinodes": ("storage.k8s.io/v1", False, {"spec": {"drivers": []}}),
    "csistoragecapacities": ("storage.k8s.io/v1", True, {"storageClassName": "fast", "capacity": "1Gi"}),
    "volumeattachments": ("storage.k8s.io/v1", False, {"spec": ATTACHED}),
    "runtimeclasses": ("node.k8s.io/v1", False, {"handler": "h"}),
    "priorityclasses": ("scheduling.k8s.io/v1", False, {"value": 7}),
    "deviceclasses": ("resource.k8s.io/v1", False, {"spec": {}}),
    "resourceclaims": ("resource.k8s.io/v1", True, {"spec": CLAIM}),
    "resourceclaimtemplates": ("resource.k8s.io/v1", True, {"spec": {"spec": CLAIM}}),
    "resourceslices": ("resource.k8s.io/v1", False, {"spec": SLICE}),
    "podtemplates": ("v1", True, {"template": TEMPLATE}),
    "replicationcontrollers": ("v1", True, {"spec": {"template": TEMPLATE}}),
    "deployments": ("apps/v1", True, {"spec": SELECTED}),
    "replicasets": ("apps/v1", True, {"spec": SELECTED}),
    "statefulsets": ("apps/v1", True, {"spec": SELECTED}),
    "daemonsets": ("apps/v1", True, {"spec": SELECTED}),
    "controllerrevisions": ("apps/v1", True, {"revision": 1, "data": {"a": 1}}),
    "jobs": ("batch/v1", True, {"spec": {"suspend": True, "template": ONCE}}),
    "cronjobs": ("batch/v1", True, {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": ONCE}}}}),
    "limitranges": ("v1", True, {"spec": {"limits": []}}),
    "resourcequotas": ("v1", True, {"spec": {"hard": {"pods": "9"}}}),
    "validatingadmissionpolicies": (f"{ADMISSION}/v1", False, {"spec": {**MATCHED, **VALIDATING}}),
    "validatingadmissionpolicybindings": (
        f"{ADMISSION}/v1", False, {"spec": {"policyName": "nobody", "validationActions": ["Deny"]}},
    ),
    "mutatingadmissionpolicies": (f"{ADMISSION}/v1", False, {"spec": {**MATCHED, **MUTATING}}),
    "mutatingadmissionpolicybindings": (f"{ADMISSION}/v1", False, {"spec": {"policyName": "nobody"}}),
    "validatingwebhookconfigurations": (f"{ADMISSION}/v1", False, {"webhooks": []}),
    "mutatingwebhookconfigurations": (f"{ADMISSION}/v1", False, {"webhooks": []}),
    "networkpolicies": ("networking.k8s.io/v1", True, {"spec": {"podSelector": {"matchLabels": {"app": "a"}}}}),
    "poddisruptionbudgets": ("policy/v1", True, {"spec": {"minAvailable": 1}}),
    "servicecidrs": ("networking.k8s.io/v1", False, {"spec": {"cidrs": ["192.0.2.0/24"]}}),
    "ipaddresses": ("networking.k8s.io/v1", False, {"spec": {"parentRef": {"resource": "services", "name": "s"}}}),
    "volumeattributesclasses": ("storage.k8s.io/v1", False, {"driverName": "d", "parameters": {"a": "b"}}),
}  # fmt: skip
NAMES = {"ipaddresses": ("192.0.2.1", "192.0.2.2")}
"""Names of the kinds that take no others."""
STATUS: dict[str, dict[str, Any]] = {
    "pods": {"message": "m"},
    "nodes": CONDITION,
    "services": {"conditions": [{**SEEN_CONDITION, "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    "persistentvolumes": {"message": "m", "reason": "r"},
    "persistentvolumeclaims": CONDITION,
    "volumeattachments": {"attached": True},
    "replicationcontrollers": CONDITION,
    "deployments": CONDITION,
    "replicasets": CONDITION,
    "statefulsets": CONDITION,
    "daemonsets": CONDITION,
    "jobs": CONDITION,
    "cronjobs": {"lastScheduleTime": "2026-01-01T00:00:00Z"},
    "resourcequotas": {"hard": {"pods": "8"}},
    "poddisruptionbudgets": {"disruptionsAllowed": 3},
    "servicecidrs": {"conditions": [{**SEEN_CONDITION, "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
}  # fmt: skip
"""A change of the status of the kinds that have one."""
