"""CEL's authorizer library: `authorizer.group('').resource('pods').namespace('x').check('get').allowed()`.

Each step is a type of its own that carries what was asked so far; `check` asks the function that `deciding` has set for
the evaluation.
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from cel_expr_python import cel

Decide = Callable[[Mapping[str, str]], tuple[bool, str]]
"""Decide about the attributes (verb, path, group, resource, subresource, namespace, name, account); with a reason."""
Asked = Mapping[str, str]

AUTHORIZER, REQUEST_RESOURCE = "authorizer", "authorizer.requestResource"
PACKAGE = "kubernetes.authorization"
_decide: ContextVar[Decide | None] = ContextVar("decide", default=None)


class deciding:  # reads as a statement
    """Answer checks in the block with `decide`."""

    def __init__(self, decide: Decide) -> None:
        self._decide = decide

    def __enter__(self) -> None:
        self._token = _decide.set(self._decide)

    def __exit__(self, *_: object) -> None:
        _decide.reset(self._token)


class Authorizer(NamedTuple):
    """The variable `authorizer`, without or with a service account as subject."""

    asked: Asked


class PathCheck(NamedTuple):
    """A check of a path that is no resource."""

    asked: Asked


class GroupCheck(NamedTuple):
    """A check of an API group, which needs a resource next."""

    asked: Asked


class ResourceCheck(NamedTuple):
    """A check of a resource, with what was asked of it so far."""

    asked: Asked


class Decision(NamedTuple):
    """The answer of `check`."""

    allowed: bool
    reason: str


Kind = type[Authorizer] | type[PathCheck] | type[GroupCheck] | type[ResourceCheck]
START = Authorizer({})
"""The value of `authorizer`."""
CHECK = 350_000
"""Upstream's price of a check, so that an expression has two."""


def request_resource(attributes: Asked) -> ResourceCheck:
    """Return the value of `authorizer.requestResource`."""
    return ResourceCheck(attributes)


def _step(field: str, made: Kind) -> Callable[[Any, str], Any]:
    return lambda step, value: made({**step.asked, field: value})


def _account(step: Authorizer, namespace: str, name: str) -> Authorizer:
    return Authorizer({**step.asked, "account": f"system:serviceaccount:{namespace}:{name}"})


def _check(step: ResourceCheck | PathCheck, verb: str) -> Decision:
    decide = _decide.get()
    if decide is None:
        raise ValueError("no authorizer")
    allowed, reason = decide({**step.asked, "verb": verb})
    return Decision(allowed, reason)


STEPS: tuple[tuple[str, type, type, tuple[type, ...], Callable[..., Any], int], ...] = (
    ("path", Authorizer, PathCheck, (str,), _step("path", PathCheck), 1),
    ("serviceAccount", Authorizer, Authorizer, (str, str), _account, 1),
    ("group", Authorizer, GroupCheck, (str,), _step("group", GroupCheck), 1),
    ("resource", GroupCheck, ResourceCheck, (str,), _step("resource", ResourceCheck), 1),
    ("subresource", ResourceCheck, ResourceCheck, (str,), _step("subresource", ResourceCheck), 1),
    ("namespace", ResourceCheck, ResourceCheck, (str,), _step("namespace", ResourceCheck), 1),
    ("name", ResourceCheck, ResourceCheck, (str,), _step("name", ResourceCheck), 1),
    ("check", ResourceCheck, Decision, (str,), _check, CHECK),
    ("check", PathCheck, Decision, (str,), _check, CHECK),
    ("allowed", Decision, bool, (), lambda decision: decision.allowed, 1),
    ("reason", Decision, str, (), lambda decision: decision.reason, 1),
    ("errored", Decision, bool, (), lambda decision: False, 1),
    ("error", Decision, str, (), lambda decision: "", 1),
)
"""Name, type of the target, of the result and of the arguments, body, and price."""


def types(native: Any) -> dict[type, "cel.Type"]:
    """Return the native checker's types of the steps and of what they take."""
    abstract_types = {step: native.Type.AbstractType(f"{PACKAGE}.{step.__name__}") for _, step, *_ in STEPS}
    return {**abstract_types, str: native.Type.STRING, bool: native.Type.BOOL}


def functions(native: Any) -> list["cel.FunctionDecl"]:
    """Return the declarations of all steps for the native checker."""
    known = types(native)
    overloads: dict[str, list[cel.Overload]] = {}
    for name, of, result, parameters, _, _ in STEPS:
        parts = [known[of], *(known[parameter] for parameter in parameters)]
        made = native.Overload(
            f"authorizer_{of.__name__}_{name}".lower(), return_type=known[result], parameters=parts, is_member=True
        )
        overloads.setdefault(name, []).append(made)
    return [native.FunctionDecl(name, made) for name, made in overloads.items()]
