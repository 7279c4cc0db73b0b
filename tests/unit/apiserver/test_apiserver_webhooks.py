"""Webhooks: where a service is, what answers mean (facts of upstream 1.36)."""

import base64
import json
import time
from typing import Any

import pytest

from actors.apiserver.writes.admission.policies.calling import Destination, destination_of
from actors.apiserver.writes.admission.policies.webhook import (
    Service,
    WebhookFailed,
    read_answer,
    read_webhooks,
    rejection,
)
from protocols.kube.meta import Object

SERVICE = Service("ns", "hook", "/check", 443)
FOUND = {"spec": {"ports": [{"name": "https", "port": 443}]}}


def part(service: str = "hook", port: int = 8443, ready: bool | None = True, address: str = "10.0.0.1") -> Object:
    return {
        "metadata": {"labels": {"kubernetes.io/service-name": service}},
        "ports": [{"name": "https", "port": port}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": ready}}],
    }


@pytest.mark.parametrize(
    ("found", "slices", "text"),
    [
        (None, [], 'service "hook" not found in namespace "ns"'),
        ({"spec": {"ports": [{"port": 80}]}}, [], 'service "hook" has no port 443'),
        (FOUND, [], 'no endpoints available for service "hook"'),
        (FOUND, [part(ready=False), part(service="other")], 'no endpoints available for service "hook"'),
    ],
)
def test_service_without_an_endpoint_is_a_failure(found: Object | None, slices: list[Object], text: str) -> None:
    with pytest.raises(WebhookFailed, match=text):
        destination_of(SERVICE, found, slices)


@pytest.mark.parametrize(("address", "host"), [("10.0.0.1", "10.0.0.1"), ("fd00::1", "[fd00::1]")])
def test_service_is_called_at_an_endpoint_under_its_own_name(address: str, host: str) -> None:
    found = destination_of(SERVICE, FOUND, [part(ready=None, address=address)])
    assert found == Destination(f"https://{host}:8443/check", "hook.ns.svc", "https://hook.ns.svc:443/check")


def answer(**response: Any) -> bytes:
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": "u", **response}}
    return json.dumps(body).encode()


@pytest.mark.parametrize(
    "raw",
    [
        b"no json",
        b"[]",
        b"[" * 100_000,
        b'{"apiVersion": "admission.k8s.io/v1"}',
        answer(uid="other"),
        answer(patch="!!!", patchType="JSONPatch"),
        answer(patch=base64.b64encode(b"{}").decode(), patchType="JSONPatch"),
        answer(patch="W10=", patchType="Merge"),
        answer(patch=base64.b64encode(b"[" * 201 + b"]" * 201).decode(), patchType="JSONPatch"),
        answer(patch=base64.b64encode(b"[1e999]").decode(), patchType="JSONPatch"),
    ],
)
def test_answer_that_is_no_review_is_a_failure(raw: bytes) -> None:
    with pytest.raises(WebhookFailed):
        read_answer(raw, "u", "v1")


SLOW = f"[{','.join(['1e-327'] * 400_000)}]"
"""msgspec takes 10 us for each of these numbers unless it is told how to read them."""


@pytest.mark.parametrize("where", ["beside the response", "in the status", "in the patch"])
def test_answer_of_slow_numbers_costs_no_seconds(where: str) -> None:
    raw = answer(allowed=True).decode()
    if where == "in the patch":
        encoded = base64.b64encode(SLOW.encode()).decode()
        raw = raw.replace('"allowed"', f'"patch": "{encoded}", "allowed"')
    else:
        at = '"kind"' if where == "beside the response" else '"allowed"'
        raw = raw.replace(at, f'"status": {{"details": {SLOW}}}, {at}')
    began = time.process_time()
    assert read_answer(raw.encode(), "u", "v1").allowed
    assert time.process_time() - began < 1.5


def test_answer_is_bounded() -> None:
    texts = ["x" * 3000] * 100
    found = read_answer(answer(allowed=True, warnings=texts, auditAnnotations={"a": "y" * 5000}), "u", "v1")
    assert sum(map(len, found.warnings)) == 4096
    assert len(found.annotations["a"]) == 1024


@pytest.mark.parametrize(
    ("status", "code", "text"),
    [
        ({}, 400, "denied the request without explanation"),
        ({"message": "no", "code": 403, "reason": "Forbidden"}, 403, "denied the request: no"),
        ({"reason": "Odd"}, 400, "denied the request: Odd"),
        ({"message": "no", "code": 200}, 400, "denied the request: no"),
    ],
)
def test_rejection_has_upstreams_form(status: Object, code: int, text: str) -> None:
    hook: Object = {"name": "a.example.com", "clientConfig": {"url": "https://x/"}}
    [webhook] = read_webhooks({"metadata": {"name": "c"}, "webhooks": [hook]})
    error = rejection(webhook, read_answer(answer(status=status), "u", "v1").status)
    assert (error.code, str(error)) == (code, f'admission webhook "a.example.com" {text}')
    assert error.reason == status.get("reason", "")
