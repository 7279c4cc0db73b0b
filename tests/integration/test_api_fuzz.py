"""Garbage for the API: whatever is asked or sent, the answer is a proper Status of upstream's kind, never a 500, never
late, and what is stored can be read afterwards in every form. NODEPLANE_FUZZ=20000 runs so many examples a test, with
other seeds each time."""

import json
import os
import random
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.apiserver.table import TABLE
from protocols.kinds.served.row import Served
from tests.support import api_garbage as garbage
from tests.support.api_judge import Answer, Client, fault
from tests.support.api_shapes import made
from tests.support.apiserver_plane import Plane, running_plane

pytestmark = pytest.mark.heavy

EXAMPLES = int(os.environ.get("NODEPLANE_FUZZ", "0"))
FORMS = ["application/json", "application/json;as=Table;v=v1;g=meta.k8s.io", "application/vnd.kubernetes.protobuf"]
WITHOUT_PROTOBUF = ("ResourceSlicePatch", "CustomResourceDefinition", "APIService", "Thing")
JSON = {"Content-Type": "application/json"}


def examples(few: int) -> settings:
    return settings(
        max_examples=EXAMPLES or few,
        derandomize=not EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """An API server with a custom resource; in the end no process has died."""
    with running_plane() as started:
        started.kubectl("create", "-f", "-", stdin=json.dumps(garbage.DEFINED))
        started.kubectl("wait", "--for=condition=Established", f"crd/{garbage.DEFINED['metadata']['name']}")
        yield started
        dead = [name for name, process in started.processes.items() if process.poll() is not None]
        assert not dead, started.logs()
        assert not started.tracebacks()


@pytest.fixture(scope="module")
def client(plane: Plane) -> Iterator[Client]:
    """A client with the admin's certificate."""
    opened = Client(plane.port, plane.tls())
    yield opened
    opened.close()


def judged(client: Client, method: str, target: str, body: bytes | None = None, **headers: str) -> Answer:
    sent = {name.replace("_", "-"): value for name, value in headers.items() if value}
    answer = client.ask(method, target, body, sent)
    told = fault(method, answer)
    assert not told, f"{method} {target} {sent} {(body or b'')[:500]!r}: {told}"
    return answer


@pytest.mark.timeout(0 if EXAMPLES else 240)
def test_lists(client: Client) -> None:
    @examples(300)
    @given(st.sampled_from(garbage.LISTED), garbage.lists, st.sampled_from(garbage.ACCEPTS))
    def each(path: str, query: dict[str, str], accept: str) -> None:
        judged(client, "GET", f"{path}?{urlencode(query, errors='surrogatepass')}", Accept=accept)

    each()


@pytest.mark.timeout(0 if EXAMPLES else 240)
def test_watches(client: Client) -> None:
    @examples(150)
    @given(st.sampled_from(garbage.LISTED), garbage.watches, st.sampled_from(garbage.ACCEPTS))
    def each(path: str, query: dict[str, str], accept: str) -> None:
        judged(client, "GET", f"{path}?{urlencode(query, errors='surrogatepass')}", Accept=accept)

    each()


@pytest.mark.timeout(0 if EXAMPLES else 240)
def test_writes(client: Client) -> None:
    @examples(400)
    @given(
        st.sampled_from(garbage.KINDS),
        garbage.kinds_of_writes,
        st.one_of(garbage.objects, garbage.bodies),
        garbage.writes,
        st.sampled_from(["", "", "", "/status", "/binding", "/eviction", "/token", "/finalize"]),
        st.sampled_from(["there", "there", "there", "new", "Bad_"]),
    )
    def each(kind: Any, how: Any, sent: Any, query: Any, below: str, name: str) -> None:
        method, media = how
        path, base = kind
        whole = {**base, "metadata": {"name": name}}
        if name == "there":
            judged(client, "POST", path, json.dumps(whole).encode(), Content_Type=JSON["Content-Type"])
        body = sent if isinstance(sent, bytes) else json.dumps(garbage.spoiled(whole, sent)).encode()
        target = path if method == "POST" and not below else f"{path}/{name}{below}"
        judged(client, method, f"{target}?{urlencode(query, errors='surrogatepass')}", body, Content_Type=media)
        for form in FORMS:
            if base["kind"] not in WITHOUT_PROTOBUF or "protobuf" not in form:
                assert judged(client, "GET", path, Accept=form).status == 200

    each()


ROWS = [row for row in TABLE.built_in if row.shape is not None and not row.virtual and "create" in row.verbs]


@pytest.mark.timeout(0 if EXAMPLES else 240)
def test_objects_of_every_kind(client: Client) -> None:
    """Created, shown, changed and removed, where they are let in at all."""
    dice = random.Random(None if EXAMPLES else 14)
    for _ in range(EXAMPLES // 100 or 3):
        for row in ROWS:
            group = f"/apis/{row.group}" if row.group else "/api"
            path = f"{group}/{row.version}/{'namespaces/default/' if row.namespaced else ''}{row.plural}"
            assert row.shape is not None
            drawn = made(row.shape, dice)
            whole = drawn if isinstance(drawn, dict) else {}
            base = next((base for known, base in garbage.KINDS if known == path), {})
            for body in (whole, garbage.spoiled(base, {k: v for k, v in whole.items() if dice.random() < 0.5})):
                written(client, path, row, body, dice)


def written(client: Client, path: str, row: Served, body: Any, dice: random.Random) -> None:
    name = "made-of-shapes"
    body |= {"apiVersion": row.api_version, "kind": row.kind, "metadata": {"name": name}}
    if row.kind == "CustomResourceDefinition":
        body["metadata"] = {"name": "things.example.com"}
    sent = json.dumps(body).encode()
    media = dice.choice(["application/json", "application/yaml"])
    judged(client, "POST", path, sent, Content_Type=media)
    for form in FORMS:
        if row.kind not in WITHOUT_PROTOBUF or "protobuf" not in form:
            assert judged(client, "GET", path, Accept=form).status == 200
    below = dice.choice(
        ["", *(f"/{sub.name}" for sub in row.subresources if "update" in sub.verbs and sub.name != "proxy")]
    )
    place = f"{path}/{body['metadata']['name']}"
    judged(client, "PATCH", place + below, sent, Content_Type=dice.choice(garbage.PATCHES))
    judged(client, "PUT", place + below, sent, Content_Type=media)
    if row.kind != "CustomResourceDefinition":
        judged(client, "DELETE", f"{place}?gracePeriodSeconds=0")
