"""CEL's authorizer library: `authorizer.group('').resource('pods').namespace('x').check('get').allowed()`.

To check, each step is a type of its own; to run, a step is the JSON of what was asked so far, and `check` asks the
function that `deciding` has set for the evaluation.
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from cel_expr_python import cel

Decide = Callable[[Mapping[str, str]], tuple[bool, str]]
"""Decide about the attributes (verb, path, group, resource, subresource, namespace, name, account); with a reason."""

AUTHORIZER, REQUEST_RESOURCE = "authorizer", "authorizer.requestResource"
_TYPES = ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
_PACKAGE = "kubernetes.authorization"
_decide: ContextVar[Decide | None] = ContextVar("decide", default=None)


class deciding:  # reads as a statement
    """Answer checks in the block with `decide`."""

    def __init__(self, decide: Decide) -> None:
        self._decide = decide

    def __enter__(self) -> None:
        self._token = _decide.set(self._decide)

    def __exit__(self, *_: object) -> None:
        _decide.reset(self._token)


def request_resource(attributes: Mapping[str, str]) -> bytes:
    """Return the value of `authorizer.requestResource`."""
    return msgspec.json.encode(attributes)


START = b"{}"
"""The value of `authorizer`."""


def _step(field: str) -> Callable[[bytes, str], bytes]:
    return lambda asked, value: msgspec.json.encode({**msgspec.json.decode(asked), field: value})


def _account(asked: bytes, namespace: str, name: str) -> bytes:
    account = f"system:serviceaccount:{namespace}:{name}"
    return msgspec.json.encode({**msgspec.json.decode(asked), "account": account})


def _check(asked: bytes, verb: str) -> bytes:
    decide = _decide.get()
    if decide is None:
        raise ValueError("no authorizer")
    allowed, reason = decide({**msgspec.json.decode(asked), "verb": verb})
    return msgspec.json.encode({"allowed": allowed, "reason": reason})


def _of(field: str, default: Any) -> Callable[[bytes], Any]:
    return lambda decision: msgspec.json.decode(decision).get(field, default)


_STEPS = (
    ("path", "Authorizer", "PathCheck", ("string",), _step("path")),
    ("serviceAccount", "Authorizer", "Authorizer", ("string", "string"), _account),
    ("group", "Authorizer", "GroupCheck", ("string",), _step("group")),
    ("resource", "GroupCheck", "ResourceCheck", ("string",), _step("resource")),
    ("subresource", "ResourceCheck", "ResourceCheck", ("string",), _step("subresource")),
    ("namespace", "ResourceCheck", "ResourceCheck", ("string",), _step("namespace")),
    ("name", "ResourceCheck", "ResourceCheck", ("string",), _step("name")),
    ("check", "ResourceCheck", "Decision", ("string",), _check),
    ("check", "PathCheck", "Decision", ("string",), _check),
    ("allowed", "Decision", "bool", (), _of("allowed", False)),
    ("reason", "Decision", "string", (), _of("reason", "")),
    ("errored", "Decision", "bool", (), lambda decision: False),
    ("error", "Decision", "string", (), lambda decision: ""),
)


def types(native: Any, run: bool) -> dict[str, "cel.Type"]:
    kinds = native.Type
    made = {name: kinds.BYTES if run else kinds.AbstractType(f"{_PACKAGE}.{name}") for name in _TYPES}
    return {**made, "string": kinds.STRING, "bool": kinds.BOOL}


def functions(native: Any, run: bool) -> list["cel.FunctionDecl"]:
    """Return the declarations; to run, the two functions `check` are one, since all steps are bytes."""
    known = types(native, run)
    overloads: dict[str, list[cel.Overload]] = {}
    for name, of, result, parameters, body in _STEPS:
        if run and name in overloads:
            continue
        behind = {"impl": body} if run else {}
        parts = [known[of], *(known[each] for each in parameters)]
        made = native.Overload(
            f"authorizer_{of}_{name}".lower(), return_type=known[result], parameters=parts, is_member=True, **behind
        )
        overloads.setdefault(name, []).append(made)
    return [native.FunctionDecl(name, made) for name, made in overloads.items()]
