"""The Python clients as they come, each a process of its own: kr8s, lightkube, the informer of kubernetes, and an
operator on kopf. The last two live through kill -9 of the API servers they talk to: nothing missed, nothing told twice,
and nobody lists again."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from protocols.bus import BusError
from tests.support.api_judge import Client
from tests.support.apiserver_plane import Plane, running_plane
from tests.support.engine import etcd_if_there
from tests.support.waiting import until

pytestmark = pytest.mark.heavy

SESSIONS = Path(__file__).parents[1] / "support" / "sessions"
MAPS = "/api/v1/namespaces/default/configmaps"
LISTS = re.compile(r'^apiserver_request_total\{[^}]*resource="configmaps"[^}]*verb="LIST"[^}]*\} (\S+)', re.MULTILINE)


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """Two API servers on one store."""
    with running_plane(store=etcd_if_there()) as started:
        started.spawn("apiserver-1")
        yield started


@pytest.fixture(scope="module")
def api(plane: Plane) -> Iterator[Client]:
    """A client, once both API servers answer."""
    client = Client(plane.port, plane.tls())
    until("two API servers", lambda: lists(plane, "apiserver-1") >= 0)
    yield client
    client.close()


GREETINGS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "greetings.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "greetings", "singular": "greeting", "kind": "Greeting"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
GREETING = {
    "apiVersion": "example.com/v1",
    "kind": "Greeting",
    "metadata": {"name": "one", "namespace": "default"},
    "spec": {"whom": "world"},
}


@contextmanager
def running(plane: Plane, command: list[str], **environment: str) -> "Iterator[subprocess.Popen[str]]":
    around = {**plane.environment, "KUBECONFIG": str(plane.root / "kubeconfig"), **environment}
    with (plane.root / "session.out").open("w+") as out:
        process = subprocess.Popen(
            command, env=around, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT, text=True
        )
        try:
            yield process
        except AssertionError as error:
            raise AssertionError(f"{error}\n{(plane.root / 'session.out').read_text()[-3000:]}") from error
        finally:
            process.kill()
            process.communicate(timeout=30)


@pytest.mark.parametrize("library", ["kr8s", "lightkube"])
def test_a_session_with(plane: Plane, library: str) -> None:
    command = [sys.executable, str(SESSIONS / f"{library}_session.py"), str(plane.root / "kubeconfig")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=plane.environment)
    assert done.stdout == "done\n", done.stderr


def test_the_informer_of_the_kubernetes_package(plane: Plane, api: Client) -> None:
    command = [sys.executable, str(SESSIONS / "informer_session.py"), str(plane.root / "kubeconfig")]
    with running(plane, command) as process:
        told = plane.root / "session.out"
        until("its own object", lambda: "ADDED dynamic\n" in told.read_text())
        survive(plane, api, "informer", lambda line: f"{line}\n" in told.read_text())
        process.communicate("\n", timeout=60)
        lines = [line for line in told.read_text().splitlines() if line.startswith(("ADDED", "MODIFIED", "DELETED"))]
        expected = ["ADDED dynamic"]
        for number in range(2):
            expected += [f"ADDED m{number}", f"MODIFIED m{number}", f"DELETED m{number}"]
        assert lines == expected


def test_an_operator_on_kopf(plane: Plane, api: Client) -> None:
    calls = plane.root / "calls"
    calls.touch()
    kopf = str(Path(sys.executable).parent / "kopf")
    command = [kopf, "run", "--standalone", "-n", "default", str(SESSIONS / "greeter.py")]
    with running(plane, command, CALLS=str(calls)) as process:
        put(api, "first", {"operated": "yes"})
        until("its first call", lambda: "created first\n" in calls.read_text())
        plane.kubectl("apply", "-f", "-", stdin=json.dumps(GREETINGS))
        plane.kubectl("wait", "--for=condition=Established", "crd/greetings.example.com", "--timeout=60s")
        greet = ["apply", "-f", "-"]
        made = lambda: "greeting.example.com/one" in plane.kubectl(*greet, stdin=json.dumps(GREETING), check=False)  # noqa: E731
        until("the kind known to both API servers", made)
        until("its own kind", lambda: "greeted one\n" in calls.read_text())
        text = ["get", "greeting", "one", "-o", "jsonpath={.status.greeted.text}"]
        until("what it said of it", lambda: plane.kubectl(*text, check=False) == "hello world")
        words = {"ADDED": "created", "MODIFIED": "updated None->1", "DELETED": "deleted"}
        told = lambda line: f"{words[line.split()[0]]} {line.split()[1]}\n" in calls.read_text()  # noqa: E731
        survive(plane, api, "operated", told)
        until("its event", lambda: "Greeted" in plane.kubectl("get", "events"))
        process.terminate()
        process.communicate(timeout=60)
    expected = ["created first", "greeted one"]
    for number in range(2):
        expected += [f"created m{number}", f"updated None->1 m{number}", f"deleted m{number}"]
    assert calls.read_text().splitlines() == expected
    assert json.loads(plane.kubectl("get", "cm", "first", "-o", "json"))["data"]["greeting"].startswith("hello first")


def survive(plane: Plane, api: Client, label: str, told: Callable[[str], bool]) -> None:
    """Both API servers are killed, one after the other, while objects come, change and go; none is listed again."""
    labels = {"app": "informer"} if label == "informer" else {"operated": "yes"}
    for number in range(2):
        before = lists(plane, f"apiserver-{1 - number}")
        plane.kill(f"apiserver-{number}")
        api.renew()
        put(api, f"m{number}", labels)
        until("the news of it", partial(told, f"ADDED m{number}"))
        plane.spawn(f"apiserver-{number}")
        ask(api, "PATCH", f"{MAPS}/m{number}", {"data": {"wanted": "1"}})
        until("its change", partial(told, f"MODIFIED m{number}"))
        ask(api, "DELETE", f"{MAPS}/m{number}", {})
        until("its end", partial(told, f"DELETED m{number}"))
        until("both are back", partial(lists, plane, f"apiserver-{number}"), good=lambda count: count == 0)
        assert lists(plane, f"apiserver-{1 - number}") == before


def put(api: Client, name: str, labels: dict[str, str]) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}
    ask(api, "POST", MAPS, body)


def ask(api: Client, method: str, path: str, body: dict[str, Any]) -> None:
    """A process that is about to listen refuses connections for a moment."""
    media = "application/merge-patch+json" if method == "PATCH" else "application/json"

    def accepted() -> bool:
        try:
            answer = api.ask(method, path, json.dumps(body).encode(), {"Content-Type": media})
        except ConnectionError:
            return False
        assert answer.status in (200, 201), answer.body
        return True

    until(f"{method} {path}", accepted)


def lists(plane: Plane, instance: str) -> int:
    """How often configmaps were listed there; -1 while it is away."""
    try:
        text = asyncio.run(plane.metrics(instance))
    except BusError:
        return -1
    return sum(int(float(count)) for count in LISTS.findall(text))
