"""schemathesis on the OpenAPI v3 that the server itself tells: each operation with requests that keep to it and with
requests that do not. Seeded; NODEPLANE_FUZZ=200 sends so many to each operation, with other seeds each time."""

import json
import os
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.core.result import Ok

from tests.support.api_judge import Client, fault
from tests.support.apiserver_plane import Plane

pytestmark = pytest.mark.heavy

EXAMPLES = int(os.environ.get("NODEPLANE_FUZZ", "0"))
FEW = 2
EACH = {GenerationMode.POSITIVE: 11, GenerationMode.NEGATIVE: 37}
"""Every so manieth operation: requests that break a large schema take a tenth of a second of thought each."""


@pytest.mark.timeout(0 if EXAMPLES else 240)
@pytest.mark.parametrize("mode", list(EACH))
def test_every_operation(plane: Plane, mode: GenerationMode) -> None:
    client = Client(plane.port, plane.tls())
    index = client.ask("GET", "/openapi/v3").json
    operations = 0
    for path in index["paths"].values():
        document = client.ask("GET", path["serverRelativeURL"]).json
        for found in schemathesis.openapi.from_dict(document).get_all_operations():
            operations += 1
            if EXAMPLES or operations % EACH[mode] == 0:
                assert isinstance(found, Ok), found
                _fuzz(client, found.ok(), mode)
    client.close()
    assert operations > 100
    assert plane.processes["apiserver-0"].poll() is None
    assert not plane.tracebacks()


def _fuzz(client: Client, operation: Any, mode: GenerationMode) -> None:
    """In a namespace that exists, half of the time about an object that may exist."""

    @settings(
        max_examples=EXAMPLES or FEW,
        derandomize=not EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode), st.booleans())
    def each(case: Any, known: bool) -> None:
        for word, value in (("namespace", "default"), ("name", "known")):
            if known and word in (case.path_parameters or {}):
                case.path_parameters[word] = value
        _judge(client, case.as_transport_kwargs(base_url="http://x"))

    each()


def _judge(client: Client, request: dict[str, Any]) -> None:
    body = request.get("data")
    if body is None and request.get("json") is not None:
        body = json.dumps(request["json"]).encode()
    parts = urlsplit(request["url"])
    queries = [parts.query, urlencode(request.get("params") or {}, doseq=True, errors="surrogatepass")]
    target = f"{parts.path}?{'&'.join(filter(None, queries))}"
    headers = {name: value for name, value in request["headers"].items() if name.lower() != "content-length"}
    sent = body.encode(errors="surrogatepass") if isinstance(body, str) else body
    answer = client.ask(request["method"], target, sent, headers)
    told = fault(request["method"], answer)
    assert not told, f"{request['method']} {target} {headers} {(sent or b'')[:1000]!r}: {told}"
