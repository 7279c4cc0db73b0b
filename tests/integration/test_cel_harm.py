"""Expressions that killed or held the processes that evaluated them: now only their owners notice."""

import json
import os
import signal
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.harmful_selectors import DRIVER, SELECTORS
from tests.support.plane import Plane, until
from tests.support.plane_client import ask

ACTORS = ("scheduler", "apiserver-0", "controllers")
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
PODS = "/api/v1/namespaces/default/pods"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
QUICK_S = 5.0
"""Generous, for two busy processors; bench stall has the figures."""
Object = dict[str, Any]

POLICIES = {
    "data": 'dyn({"a": object.?data[0]}) == 1',
    "pattern": 'object.data["a"].findAll("", 9223372036854775807) == []',
    "dear": '!lists.range(9990).all(x, ip("10.0.0.1") == ip("10.0.0.1") && cidr("::/0").masked() == cidr("::/0"))',
    "finalizers": "object.metadata.?finalizers.orValue([]).all(f, f in oldObject.metadata.?finalizers.orValue([]))",
}


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with Plane() as plane:
        assert make(plane, "/apis/resource.k8s.io/v1/resourceslices", device_slice())[0] == 201
        assert workers(plane) == []
        assert make(plane, "/apis/resource.k8s.io/v1/deviceclasses", device_class())[0] == 201
        assert workers(plane) == ["cel-apiserver-0"], "the first expression starts the worker of its process only"
        yield plane


def workers(plane: Plane) -> list[str]:
    return [name for name in plane.status() if name.startswith("cel-")]


def make(plane: Plane, path: str, obj: Object, method: str = "POST") -> tuple[int, str]:
    status, body = ask(plane.root, method, path, json.dumps(obj))
    return status, body.decode()


def remove(plane: Plane, path: str) -> None:
    ask(plane.root, "DELETE", f"{path}?gracePeriodSeconds=0")


def device_slice() -> Object:
    devices = [
        {"name": f"dev-{number}", "attributes": {"name": {"string": f"dev-{number}"}, "n": {"int": number}}}
        for number in range(2)
    ]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    return {"metadata": {"name": "s"}, "spec": {"driver": DRIVER, "pool": pool, "allNodes": True, "devices": devices}}


def device_class() -> Object:
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    return {"metadata": {"name": "cls"}, "spec": {"selectors": selectors}}


def claim(name: str, expression: str) -> Object:
    exactly = {"deviceClassName": "cls", "selectors": [{"cel": {"expression": expression}}]}
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}


def pod(name: str, claimed: str = "") -> Object:
    claims = [{"name": "c", "resourceClaimName": claimed}] if claimed else []
    container = {"name": "main", "image": "busybox", "command": ["sleep", "1000"]}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container], "resourceClaims": claims}
    return {"metadata": {"name": name}, "spec": spec}


def processes(plane: Plane) -> dict[str, tuple[int, int]]:
    """Process and restarts of those that must not notice."""
    status = plane.status()
    return {name: (status[name]["pid"], status[name]["restarts"]) for name in ACTORS}


def place(plane: Plane, name: str, claimed: str = "") -> None:
    assert make(plane, PODS, pod(name, claimed))[0] == 201
    until(f"{name} has a node", lambda: plane.get("pod", name).get("spec", {}).get("nodeName"))
    remove(plane, f"{PODS}/{name}")


@pytest.fixture
def unharmed(plane: Plane) -> Iterator[None]:
    """Afterwards the same processes serve as before, quickly."""
    before = processes(plane)
    yield
    began = time.monotonic()
    assert ask(plane.root, "GET", PODS)[0] == 200
    place(plane, "next")
    taken = time.monotonic() - began
    assert processes(plane) == before
    assert taken < QUICK_S


def message_of(plane: Plane, name: str) -> str:
    conditions = plane.get("pod", name).get("status", {}).get("conditions") or []
    return next((str(condition.get("message")) for condition in conditions if condition["type"] == "PodScheduled"), "")


@pytest.mark.parametrize("case", SELECTORS)
def test_selector_harms_its_own_claim_only(plane: Plane, unharmed: None, case: str) -> None:
    status, body = make(plane, CLAIMS, claim(case, SELECTORS[case]))
    if status == 422:  # rejected at once, which is as good
        assert "selectors[0].cel.expression" in body
        return
    assert status == 201, body
    assert make(plane, PODS, pod(case, case))[0] == 201
    until("the owner sees why", lambda: "allocate all claims" in (text := message_of(plane, case)) or "CEL" in text)
    remove(plane, f"{PODS}/{case}")
    remove(plane, f"{CLAIMS}/{case}")


def test_wrong_selector_is_invalid_not_an_internal_error(plane: Plane, unharmed: None) -> None:
    status, body = make(plane, CLAIMS, claim("sorted", "[1].sortBy(v%1, 2) == []"))
    assert (status, "selectors[0].cel.expression" in body) == (422, True), body


def policy_objects(name: str, expression: str, kind: str) -> tuple[Object, Object]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}
    chosen = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": [name]}]}
    spec: Object = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule], "namespaceSelector": chosen},
    }
    binding: Object = {"policyName": name}
    if kind == "validating":
        spec["validations"] = [{"expression": expression}]
        binding["validationActions"] = ["Deny"]
    else:
        spec["reinvocationPolicy"] = "Never"
        spec["mutations"] = [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}]
    return {"metadata": {"name": name}, "spec": spec}, {"metadata": {"name": name}, "spec": binding}


@pytest.mark.parametrize("case", POLICIES)
def test_policy_harms_the_writes_that_it_matches_only(plane: Plane, unharmed: None, case: str) -> None:
    policy, binding = policy_objects(case, POLICIES[case], "validating")
    status, body = make(plane, f"{ADMISSION}/validatingadmissionpolicies", policy)
    if status == 422:
        assert "spec.validations[0].expression" in body
        return
    assert status == 201, body
    assert make(plane, f"{ADMISSION}/validatingadmissionpolicybindings", binding)[0] == 201
    assert make(plane, "/api/v1/namespaces", {"metadata": {"name": case}})[0] == 201
    path = f"/api/v1/namespaces/{case}/configmaps"
    finalizers = [f"example.com/f{number}" for number in range(9000 if case == "finalizers" else 0)]
    number = iter(range(1000))

    def rejected() -> str:
        status, body = make(
            plane, path, {"metadata": {"name": f"x{next(number)}", "finalizers": finalizers}, "data": {"a": "b"}}
        )
        assert status in (201, 422, 500, 503), body
        return body if status == 422 else ""

    if case == "finalizers":
        until(
            "evaluated",
            lambda: make(plane, path, {"metadata": {"name": "x", "finalizers": finalizers}})[0] in (201, 422),
        )
    else:
        assert f"ValidatingAdmissionPolicy '{case}'" in until("the write's own error", rejected)
    remove(plane, f"{ADMISSION}/validatingadmissionpolicybindings/{case}")
    remove(plane, f"{ADMISSION}/validatingadmissionpolicies/{case}")


def test_mutating_policy_harms_the_writes_that_it_matches_only(plane: Plane, unharmed: None) -> None:
    policy, binding = policy_objects(
        "mutating", "Object{data: {'a': string(object.?data[0].orValue('x'))}}", "mutating"
    )
    status, body = make(plane, f"{ADMISSION}/mutatingadmissionpolicies", policy)
    assert status in (201, 422), body
    if status == 201:
        assert make(plane, f"{ADMISSION}/mutatingadmissionpolicybindings", binding)[0] == 201
        assert make(plane, "/api/v1/namespaces", {"metadata": {"name": "mutating"}})[0] == 201
        status, body = make(plane, "/api/v1/namespaces/mutating/configmaps", {"metadata": {"name": "x"}})
        assert status in (201, 422, 500), body
        remove(plane, f"{ADMISSION}/mutatingadmissionpolicybindings/mutating")


@pytest.mark.parametrize(
    ("rule", "holds"), [('self.findAll("", 1000000000).size() > 0', True), ("self.matches('(a+)+$')", False)]
)
def test_rule_harms_its_own_objects_only(plane: Plane, unharmed: None, rule: str, holds: bool) -> None:
    plural = f"ruled{int(holds)}s"
    text = {"type": "string", "maxLength": 100, "x-kubernetes-validations": [{"rule": rule}]}
    schema = {"type": "object", "properties": {"text": text}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "singular": plural[:-1], "kind": "Ruled", "listKind": "RuledList"}
    spec = {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version]}
    status, body = make(plane, DEFINITIONS, {"metadata": {"name": f"{plural}.example.com"}, "spec": spec})
    assert status == 201, body
    path = f"/apis/example.com/v1/namespaces/default/{plural}"
    until("served", lambda: ask(plane.root, "GET", path)[0] == 200)
    obj = {"apiVersion": "example.com/v1", "kind": "Ruled", "metadata": {"name": "a"}, "text": "x" * 90 + "!"}
    status, body = make(plane, path, obj)
    assert status == (201 if holds else 422), body
    assert holds or '"field":"text"' in body
    remove(plane, f"{DEFINITIONS}/{plural}.example.com")


# the worker's own end


def test_worker_outlives_more_ends_of_evaluators_than_a_process_may_have(plane: Plane, unharmed: None) -> None:
    """The supervisor gives a process up after 30 crashes within a minute."""
    worker = "cel-apiserver-0"
    before, ended = plane.status()[worker], set[int]()
    for number in range(40):
        for pid in evaluators(plane, worker):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSEGV)
            ended.add(pid)
        name = f"after-{number}"
        assert make(plane, CLAIMS, claim(name, f"['{name}'].all(x, x != device.driver)"))[0] == 201
        remove(plane, f"{CLAIMS}/{name}")
    after = plane.status()[worker]
    assert len(ended) > 30
    assert (after["pid"], after["restarts"]) == (before["pid"], before["restarts"])
    assert after["state"] in ("ready", "live")


def evaluators(plane: Plane, worker: str) -> list[int]:
    pid = plane.status()[worker]["pid"]
    with suppress(OSError):
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def metrics(plane: Plane) -> str:
    endpoint = json.loads(plane.nodeplane("status", "-o", "json"))["endpoints"]["metrics"]
    with urllib.request.urlopen(endpoint, timeout=30) as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["kill", "stop"])
@pytest.mark.parametrize("whole", [True, False], ids=["worker", "evaluator"])
def test_no_write_is_lost_while_workers_end(plane: Plane, unharmed: None, number: int, whole: bool) -> None:
    name = f"load-{number}-{int(whole)}"
    policy, binding = policy_objects(name, "object.data['a'].find('^b$') == 'b'", "validating")
    assert make(plane, f"{ADMISSION}/validatingadmissionpolicies", policy)[0] == 201
    assert make(plane, f"{ADMISSION}/validatingadmissionpolicybindings", binding)[0] == 201
    assert make(plane, "/api/v1/namespaces", {"metadata": {"name": name}})[0] == 201
    path = f"/api/v1/namespaces/{name}/configmaps"
    wrong = {"metadata": {"name": "wrong"}, "data": {"a": "c"}}
    until("in force", lambda: make(plane, f"{path}?dryRun=All", wrong)[0] == 422)
    end = time.monotonic() + 3

    def write(thread: int) -> list[int]:
        found = []
        while time.monotonic() < end:
            found.append(make(plane, path, {"metadata": {"generateName": f"c{thread}-"}, "data": {"a": "b"}})[0])
        return found

    with ThreadPoolExecutor(3) as pool:
        writes = [pool.submit(write, thread) for thread in range(3)]
        for _ in range(2):
            time.sleep(0.5)
            worker = "cel-apiserver-0"
            for pid in [plane.status()[worker]["pid"]] if whole else evaluators(plane, worker):
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        statuses = [status for write in writes for status in write.result()]
    assert set(statuses) == {201}
    stored = json.loads(ask(plane.root, "GET", path)[1])["items"]
    assert len([each for each in stored if each["metadata"]["name"].startswith("c")]) == len(statuses)
    remove(plane, f"{ADMISSION}/validatingadmissionpolicybindings/{name}")
    until("the worker is back", lambda: plane.status()["cel-apiserver-0"]["state"] in ("ready", "live"))
    if not whole:
        note = "last evaluator replaced: "
        until("it is shown", lambda: note in (plane.status()["cel-apiserver-0"]["beat"] or {}).get("note", ""))
        until("it is counted", lambda: "nodeplane_cel_worker_kills_total{" in metrics(plane))


def test_native_library_is_loaded_by_workers_only(plane: Plane) -> None:
    """The last test of the file: everything above has been evaluated."""
    status = plane.status()
    loaded = {
        name: "cel_expr_python" in Path(f"/proc/{status[name]['pid']}/maps").read_text()
        for name in (*ACTORS, "cel-scheduler", "cel-apiserver-0")
    }
    assert loaded == {**dict.fromkeys(ACTORS, False), "cel-scheduler": True, "cel-apiserver-0": True}
