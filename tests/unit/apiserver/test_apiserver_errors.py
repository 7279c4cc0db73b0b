"""What the API answers when it refuses: shapes and sentences that clients match on."""

import asyncio
import gc
import weakref
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from actors.apiserver.api import errors
from actors.apiserver.api.errors import as_api_error
from actors.apiserver.api.request import target as faults
from actors.apiserver.api.request.target import unknown_path, verb_not_supported
from actors.apiserver.http.routing.call import Call, error_response, status_reply
from actors.apiserver.replica.replica import Replica
from actors.apiserver.table import TABLE
from protocols.errors import NodeplaneError
from protocols.etcd import errors as etcd
from protocols.kinds.check import causes
from protocols.kube.errors import BodyInvalid, PatchImpossible, PatchInvalid, PatchTooLarge, SelectorInvalid

PODS, LEASES = TABLE.of("pods"), TABLE.of("leases")
POD: dict[str, Any] = {"name": "a", "kind": "pods"}
LEASE = {"name": "a", "group": "coordination.k8s.io", "kind": "leases"}
TOO_LARGE = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
NO_NAME = "already exists, the server was not able to generate a unique name for the object"
FORMS = [
    (faults.not_found(PODS, "a"), 404, "NotFound", 'pods "a" not found', POD),
    (faults.not_found(LEASES, "a"), 404, "NotFound", 'leases.coordination.k8s.io "a" not found', LEASE),
    (faults.already_exists(PODS, "a"), 409, "AlreadyExists", 'pods "a" already exists', POD),
    (
        faults.already_exists(PODS, "a", terminating=True),
        409,
        "AlreadyExists",
        'object is being deleted: pods "a" already exists',
        POD,
    ),
    (faults.name_exhausted(PODS, "a"), 409, "AlreadyExists", f'pods "a" {NO_NAME}', {**POD, "retryAfterSeconds": 1}),
    (
        faults.conflict(PODS, "a"),
        409,
        "Conflict",
        f'Operation cannot be fulfilled on pods "a": {MODIFIED}',
        POD,
    ),
    (faults.forbidden(PODS, "a", "no"), 403, "Forbidden", 'pods "a" is forbidden: no', POD),
    (
        verb_not_supported(PODS, "deletecollection"),
        405,
        "MethodNotAllowed",
        'deletecollection is not supported on resources of kind "pods"',
        {"kind": "pods"},
    ),
    (errors.BadRequest("no"), 400, "BadRequest", "no", None),
    (errors.Unauthorized(), 401, "Unauthorized", "Unauthorized", None),
    (errors.TooManyRequests("slow", retry_after=1), 429, "TooManyRequests", "slow", {"retryAfterSeconds": 1}),
    (errors.ServiceUnavailable("down"), 503, "ServiceUnavailable", "down", {"retryAfterSeconds": 1}),
    (
        errors.TooLargeVersion(200, 150),
        504,
        "Timeout",
        "Timeout: Too large resource version: 200, current: 150",
        {"causes": [TOO_LARGE], "retryAfterSeconds": 1},
    ),
    (
        errors.UnsupportedMediaType("a, b"),
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: a, b",
        None,
    ),
    (errors.NotAcceptable("a"), 406, "NotAcceptable", "only the following media types are accepted: a", None),
    (
        errors.InternalError("boom"),
        500,
        "InternalError",
        "Internal error occurred: boom",
        {"causes": [{"message": "boom"}]},
    ),
]


@pytest.mark.parametrize(("error", "code", "reason", "message", "details"), FORMS, ids=lambda value: str(value)[:30])
def test_shape(error: errors.ApiError, code: int, reason: str, message: str, details: dict[str, Any] | None) -> None:
    expected: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    expected |= {"message": message, "reason": reason, "code": code}
    if details is not None:
        expected["details"] = details
    assert error.status == expected
    assert (error.code, error.reason, error.http) == (code, reason, code)


def test_what_is_not_found_has_details_always() -> None:
    assert "details" in unknown_path().status


def test_invalid_names_the_kind_and_every_cause() -> None:
    found = [causes.required("spec.x"), causes.invalid("spec.y", "v", "must be z")]
    error = errors.invalid_object("Lease", "coordination.k8s.io", "a", found)
    assert str(error) == (
        'Lease.coordination.k8s.io "a" is invalid: [spec.x: Required value, spec.y: Invalid value: "v": must be z]'
    )
    assert error.details["causes"][0] == {
        "reason": "FieldValueRequired",
        "message": "Required value",
        "field": "spec.x",
    }
    alone = errors.invalid_object("Pod", "", "a", [causes.forbidden("spec", "cannot change")])
    assert str(alone) == 'Pod "a" is invalid: spec: Forbidden: cannot change'


@pytest.mark.parametrize(
    ("cause", "reason", "message"),
    [
        (
            causes.unsupported("f", "x", ("a", "b")),
            "NotSupported",
            'Unsupported value: "x": supported values: "a", "b"',
        ),
        (causes.duplicate("f", 1), "Duplicate", "Duplicate value: 1"),
        (causes.too_long("f", 63), "TooLong", "Too long: may not be more than 63 bytes"),
    ],
)
def test_causes(cause: causes.Cause, reason: str, message: str) -> None:
    assert cause == ("f", f"FieldValue{reason}", message)


@pytest.mark.parametrize(
    ("kind", "code", "reason"),
    [
        (BodyInvalid, 400, "BadRequest"),
        (SelectorInvalid, 400, "BadRequest"),
        (PatchInvalid, 400, "BadRequest"),
        (PatchTooLarge, 413, "RequestEntityTooLarge"),
        (PatchImpossible, 422, "Invalid"),
    ],
)
def test_faults_of_the_conventions_become_answers(kind: type[Any], code: int, reason: str) -> None:
    made = as_api_error(kind("why"))
    lead = "the server rejected our request due to an error in our request: " if code == 422 else ""
    assert (made.code, made.reason, str(made)) == (code, reason, f"{lead}why")


@pytest.mark.parametrize(
    "error",
    [errors.TooManyRequests("later", retry_after=1), errors.TooLargeVersion(200, 150), errors.ServiceUnavailable("x")],
)
def test_retryable_errors_carry_retry_after(error: errors.ApiError) -> None:
    reply = status_reply(error)
    assert reply.status in (429, 503, 504)
    assert int(reply.headers["Retry-After"]) > 0


@pytest.mark.parametrize(
    ("error", "again"),
    [(etcd.Unavailable("broke"), "1"), (etcd.OutcomeUnknown(etcd.Unavailable("broke")), None)],
    ids=["read, or not sent", "write that may have happened"],
)
def test_store_that_does_not_answer_lets_clients_repeat_what_has_no_effect(
    error: NodeplaneError, again: str | None
) -> None:
    reply = status_reply(as_api_error(error))
    assert reply.status == 503
    assert reply.headers.get("Retry-After") == again


@pytest.mark.parametrize(("method", "again"), [("GET", "1"), ("POST", None), ("PATCH", None)])
def test_write_that_took_too_long_is_not_repeated_since_it_may_have_happened(method: str, again: str | None) -> None:
    call = Call(make_mocked_request(method, "/api/v1/namespaces/ns/pods"))
    call.seconds = 34.0
    response = error_response(call, TimeoutError())
    assert (response.status, response.headers.get("Retry-After")) == (504, again)


def test_body_of_a_failed_request_is_freed_with_its_last_user() -> None:
    """Its error was kept for the audit log, with the frames that hold the body and the request."""

    def fails() -> "weakref.ref[set[str]]":
        call, body = Call(make_mocked_request("POST", "/api/v1/namespaces/ns/pods")), set[str]()
        try:
            raise errors.BadRequest("no")
        except NodeplaneError as error:
            error_response(call, error)
        return weakref.ref(body)

    gc.disable()
    try:
        assert fails()() is None
    finally:
        gc.enable()


def test_before_there_is_data_clients_get_retry_after() -> None:
    with pytest.raises(errors.TooManyRequests, match=r"storage is \(re\)initializing") as raised:
        Replica(TABLE.built_in[0]).check_filled()
    assert status_reply(raised.value).headers["Retry-After"] == "1"


async def test_read_while_the_process_starts_waits_for_the_first_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica(TABLE.built_in[0])
    read = asyncio.create_task(replica.wait_for(0))
    await asyncio.sleep(0)
    assert not read.done()
    replica.on_snapshot([], 7)
    await read
    monkeypatch.setattr("actors.apiserver.replica.replica.FILL_SECONDS", 0.01)
    with pytest.raises(errors.TooManyRequests, match="not filled yet"):
        await Replica(TABLE.built_in[0]).wait_for(0)
