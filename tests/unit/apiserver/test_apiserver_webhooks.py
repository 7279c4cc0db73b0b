"""Webhooks: where a service is, what answers mean (facts of upstream 1.36)."""

import base64
import json
import time
from typing import Any

import pytest

from actors.apiserver.writes.admission.policies.calling import Destination, destination_of
from actors.apiserver.writes.admission.policies.webhook import (
    Service,
    Webhook,
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
        (None, [], 'service "hook" not found'),
        ({"spec": {"ports": [{"port": 80}]}}, [], 'no service port 443 found for service "hook"'),
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
    assert found == Destination(f"https://{host}:8443/check", "hook.ns.svc")


def webhook(version: str = "v1", kind: str = "MutatingWebhookConfiguration") -> Webhook:
    client, versions = {"url": "https://x/"}, [version]
    hook: Object = {"name": "a.example.com", "clientConfig": client, "admissionReviewVersions": versions}
    [made] = read_webhooks({"kind": kind, "metadata": {"name": "c"}, "webhooks": [hook]})
    return made


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
        read_answer(raw, "u", webhook())


VALIDATING = "ValidatingWebhookConfiguration"
NO_OPERATION = base64.b64encode(b'[{"op": "add", "path": "/a", "value": 1}]').decode()


@pytest.mark.parametrize(
    ("asked", "raw", "text"),
    [
        (webhook(), answer(patch=NO_OPERATION), "webhook returned response.patch but not response.patchType"),
        (webhook(), answer(patchType="JSONPatch"), "webhook returned response.patchType but not response.patch"),
        (webhook(), b'{"response": {"uid": "u"}}', "of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind="),
        (webhook(kind=VALIDATING), answer(patch=NO_OPERATION), "validating webhook may not return response.patch"),
        (webhook(kind=VALIDATING), answer(patchType=""), "validating webhook may not return response.patchType"),
        (webhook("v1beta1"), b'{"response": {"allowed": true}}', ""),
        (webhook("v1beta1"), answer(patch=NO_OPERATION), ""),
        (webhook("v1beta1", VALIDATING), answer(patch=NO_OPERATION), ""),
    ],
)
def test_answer_is_checked_as_its_version_asks(asked: Webhook, raw: bytes, text: str) -> None:
    if text:
        with pytest.raises(WebhookFailed, match=f"received invalid webhook response: .*{text}$"):
            read_answer(raw, "u", asked)
    else:
        assert bool(read_answer(raw, "u", asked).patch) == (b"patch" in raw and asked.mutating)


SLOW = f"[{','.join(['1e-327'] * 400_000)}]"
"""msgspec takes 10 us for each of these numbers unless it is told how to read them."""


@pytest.mark.parametrize("where", ["beside the response", "in the status", "in the patch"])
def test_answer_of_slow_numbers_costs_no_seconds(where: str) -> None:
    raw = answer(allowed=True).decode()
    if where == "in the patch":
        encoded = base64.b64encode(SLOW.encode()).decode()
        raw = raw.replace('"allowed"', f'"patch": "{encoded}", "patchType": "JSONPatch", "allowed"')
    else:
        at = '"kind"' if where == "beside the response" else '"allowed"'
        raw = raw.replace(at, f'"status": {{"details": {{"x": {SLOW}}}}}, {at}')
    began = time.process_time()
    assert read_answer(raw.encode(), "u", webhook()).allowed
    assert time.process_time() - began < 1.5


def test_answer_is_bounded() -> None:
    texts = ["x" * 3000] * 100
    found = read_answer(answer(allowed=True, warnings=texts, auditAnnotations={"a": "y" * 5000}), "u", webhook())
    assert sum(map(len, found.warnings)) == 4096
    assert len(found.annotations["a"]) == 1024


@pytest.mark.parametrize(
    ("status", "code", "text"),
    [
        ({}, 400, "denied the request without explanation"),
        ({"message": "no", "code": 403, "reason": "Forbidden"}, 403, "denied the request: no"),
        ({"reason": "Odd"}, 400, "denied the request: Odd"),
        ({"message": "no", "code": 200}, 400, "denied the request: no"),
        ({"details": {"kind": "Pod", "causes": [{"field": "spec"}]}}, 400, "denied the request without explanation"),
    ],
)
def test_rejection_has_upstreams_form(status: Object, code: int, text: str) -> None:
    error = rejection(webhook(), read_answer(answer(status=status), "u", webhook()).status)
    assert (error.code, str(error)) == (code, f'admission webhook "a.example.com" {text}')
    assert error.reason == status.get("reason", "")
    assert error.status.get("details") == status.get("details")
