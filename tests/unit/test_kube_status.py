import pytest

from protocols.kube import causes, status
from protocols.kube.resources import LEASES, NODES, PODS

FORMS = [
    (status.not_found(PODS, "a"), 404, "NotFound", 'pods "a" not found', {"name": "a", "kind": "pods"}),
    (
        status.not_found(LEASES, "a"),
        404,
        "NotFound",
        'leases.coordination.k8s.io "a" not found',
        {"name": "a", "group": "coordination.k8s.io", "kind": "leases"},
    ),
    (status.unknown_path(), 404, "NotFound", "the server could not find the requested resource", {}),
    (status.already_exists(PODS, "a"), 409, "AlreadyExists", 'pods "a" already exists', {"name": "a", "kind": "pods"}),
    (
        status.already_exists(PODS, "a", terminating=True),
        409,
        "AlreadyExists",
        'object is being deleted: pods "a" already exists',
        {"name": "a", "kind": "pods"},
    ),
    (
        status.conflict(PODS, "a"),
        409,
        "Conflict",
        'Operation cannot be fulfilled on pods "a": the object has been modified; please apply your changes to the'
        " latest version and try again",
        {"name": "a", "kind": "pods"},
    ),
    (
        status.delete_precondition(PODS, "a", "UID", "x", "y"),
        409,
        "Conflict",
        'Operation cannot be fulfilled on pods "a": the UID in the precondition (x) does not match the UID in record'
        " (y). The object might have been deleted and then recreated",
        {"name": "a", "kind": "Pod"},
    ),
    (
        status.apply_conflict(PODS, [('"mgr" using v1', ".spec.x")]),
        409,
        "Conflict",
        'Apply failed with 1 conflict: conflict with "mgr" using v1: .spec.x',
        {"causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "mgr" using v1', "field": ".spec.x"}]},
    ),
    (status.bad_request("no"), 400, "BadRequest", "no", None),
    (status.unauthorized(), 401, "Unauthorized", "Unauthorized", None),
    (
        status.forbidden(PODS, "a", "u", "get", "ns", subresource="log"),
        403,
        "Forbidden",
        'pods "a" is forbidden: User "u" cannot get resource "pods/log" in API group "" in the namespace "ns"',
        {"name": "a", "kind": "pods"},
    ),
    (
        status.forbidden(NODES, "", "u", "list", why="no rule"),
        403,
        "Forbidden",
        'nodes is forbidden: User "u" cannot list resource "nodes" in API group "" at the cluster scope: no rule',
        {"kind": "nodes"},
    ),
    (
        status.forbidden_path("u", "get", "/x"),
        403,
        "Forbidden",
        'forbidden: User "u" cannot get path "/x"',
        {},
    ),
    (status.too_old(100, 102), 410, "Expired", "too old resource version: 100 (101)", None),
    (
        status.timeout_too_large_rv(200, 150),
        504,
        "Timeout",
        "Timeout: Too large resource version: 200, current: 150",
        {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
    ),
    (status.too_many_requests("slow"), 429, "TooManyRequests", "slow", {"retryAfterSeconds": 1}),
    (
        status.method_not_allowed(PODS, "deletecollection"),
        405,
        "MethodNotAllowed",
        'deletecollection is not supported on resources of kind "pods"',
        {"kind": "pods"},
    ),
    (
        status.unsupported_media_type(["a", "b"]),
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: a, b",
        None,
    ),
    (
        status.not_acceptable(["a", "b"]),
        406,
        "NotAcceptable",
        "only the following media types are accepted: a, b",
        None,
    ),
    (
        status.entity_too_large(),
        413,
        "RequestEntityTooLarge",
        "Request entity too large: limit is 3145728",
        None,
    ),
    (status.service_unavailable("down"), 503, "ServiceUnavailable", "down", None),
    (
        status.internal("boom"),
        500,
        "InternalError",
        "Internal error occurred: boom",
        {"causes": [{"message": "boom"}]},
    ),
    (
        status.server_timeout(PODS, "create"),
        500,
        "ServerTimeout",
        "The create operation against pods could not be completed at this time, please try again.",
        {"name": "create", "kind": "pods", "retryAfterSeconds": 2},
    ),
]


@pytest.mark.parametrize(("error", "code", "reason", "message", "details"), FORMS, ids=lambda value: str(value)[:30])
def test_shape(error: status.StatusError, code: int, reason: str, message: str, details: dict[str, object]) -> None:
    expected: dict[str, object] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    expected |= {"message": message, "reason": reason, "code": code}
    if details is not None:
        expected["details"] = details
    assert error.status == expected
    assert (error.code, error.reason, str(error)) == (code, reason, message)


def test_invalid_names_the_kind_and_every_cause() -> None:
    error = status.invalid(LEASES, "a", [causes.required("spec.x"), causes.invalid_value("spec.y", "v", "must be z")])
    assert error.code == 422
    assert str(error) == (
        'Lease.coordination.k8s.io "a" is invalid: [spec.x: Required value, spec.y: Invalid value: "v": must be z]'
    )
    assert error.details == {
        "name": "a",
        "group": "coordination.k8s.io",
        "kind": "Lease",
        "causes": [
            {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.x"},
            {"reason": "FieldValueInvalid", "message": 'Invalid value: "v": must be z', "field": "spec.y"},
        ],
    }


def test_single_cause_needs_no_brackets() -> None:
    error = status.invalid(PODS, "a", [causes.forbidden_field("spec", "cannot change")])
    assert str(error) == 'Pod "a" is invalid: spec: Forbidden: cannot change'


def test_option_errors() -> None:
    error = status.invalid_options("ListOptions", [causes.forbidden_field("resourceVersionMatch", "no")])
    assert error.details["group"] == "meta.k8s.io"
    assert error.details["kind"] == "ListOptions"
    assert "name" not in error.details
    assert str(error) == 'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: no'


@pytest.mark.parametrize(
    ("cause", "reason", "message"),
    [
        (
            causes.not_supported("f", "x", {"b", "a"}),
            "NotSupported",
            'Unsupported value: "x": supported values: "a", "b"',
        ),
        (causes.duplicate("f", 1), "Duplicate", "Duplicate value: 1"),
        (causes.not_found_value("f", "x"), "NotFound", 'Not found: "x"'),
        (causes.too_long("f", 63), "TooLong", "Too long: may not be more than 63 bytes"),
        (causes.too_many("f", 5, 3), "TooMany", "Too many: 5: must have at most 3 items"),
        (causes.type_invalid("f", {"a": 1}), "TypeInvalid", 'Invalid value: {"a":1}'),
    ],
)
def test_causes(cause: status.Cause, reason: str, message: str) -> None:
    assert cause.as_object() == {"reason": f"FieldValue{reason}", "message": message, "field": "f"}


def test_long_values_are_cut() -> None:
    assert len(causes.invalid_value("f", "x" * 10_000).message) < 300


def test_expired_list_may_carry_a_new_token() -> None:
    assert status.expired("x", "token").status["metadata"] == {"continue": "token"}


def test_retry_after() -> None:
    assert status.timeout_too_large_rv(2, 1).retry_after == 1
    assert status.unauthorized().retry_after == 0


def test_success() -> None:
    assert status.success(LEASES, "a", "u")["details"] == {
        "name": "a",
        "group": "coordination.k8s.io",
        "kind": "leases",
        "uid": "u",
    }
