"""Ask the worker for the values of the expressions of one policy or webhook for one write.

Values are plain JSON; `variables` are part of each expression. The expressions of a policy are asked for together.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from actors.apiserver.api.request.target import Attributes
from actors.apiserver.api.request.user import User, account_groups
from actors.apiserver.authorization.authorizer import Authorizer
from actors.apiserver.writes.change import CREATE, DEFAULTS, DELETE, UPDATE, Change
from protocols.cel.text.source import SPENT, CelError, EvaluationError
from protocols.cel.worker.asking import NotAnswered, answer
from protocols.cel.worker.messages import (
    Evaluated,
    EvaluatePolicy,
    Expression,
    Outcome,
    Undecided,
    Value,
    WorkerFault,
    error_of,
)
from protocols.kube.jsons import read_json
from protocols.kube.meta import Object
from protocols.kube.objects import at, items

SECONDS = 1.0
"""Time limit for all expressions of one policy, about as long as upstream's cost budget."""
ROUNDS = 16
"""Rounds of decisions of the authorizer; each answers all checks that the earlier ones led to."""
UNDECIDED = "checks of the authorizer depend on each other too often"
OPTIONS = {CREATE: "CreateOptions", UPDATE: "UpdateOptions", DELETE: "DeleteOptions"}
REQUEST_RESOURCE = "authorizer.requestResource"


class Condition(msgspec.Struct, frozen=True):
    """A match condition: the policy or webhook is about the write if all are true."""

    name: str
    expression: str


def read_conditions(spec: Object) -> tuple[Condition, ...]:
    """Read matchConditions."""
    conditions = items(spec, "matchConditions")
    return tuple(
        Condition(str(condition.get("name")), str(condition.get("expression")).strip()) for condition in conditions
    )


class Input:
    """The values of one write that expressions read."""

    def __init__(self, change: Change, authorizer: Authorizer, namespace: Object | None) -> None:
        self._change = change
        self._authorizer = authorizer
        self._namespace = _shown_namespace(namespace)

    def data(self, request: Object, new: Object | None, old: Object | None, params: Object | None) -> dict[str, Any]:
        target = self._change.target
        resource = {
            "group": target.resource.group,
            "resource": target.resource.plural,
            "subresource": target.subresource,
            "namespace": self._change.namespace,
            "name": str(request["name"]),
        }
        return {
            "object": new,
            "oldObject": old,
            "request": request,
            "params": params,
            "namespaceObject": self._namespace,
            REQUEST_RESOURCE: resource,
        }

    def value(self, expression: str, scope: Any, data: dict[str, Any]) -> Any:
        """Return the value of an expression in a Scope of protocols.cel.policies. Raises CelError, NotAnswered."""
        outcomes = self.outcomes([(expression, scope)], data)
        if outcomes is None:
            raise NotAnswered
        return value_of(outcomes[0])

    def outcomes(
        self, expressions: Sequence[tuple[str, Any]], data: dict[str, Any], gates: int = 0
    ) -> tuple[Outcome, ...] | None:
        """Return the outcome of each expression, or None if it is not known yet. Raises CelError.

        The first `gates` are conditions: those behind them are skipped unless all are true.
        """
        asked = tuple(Expression(source, tuple(scope)) for source, scope in expressions)
        decisions: dict[str, bool] = {}
        for _ in range(ROUNDS):
            question = EvaluatePolicy(asked, data, gates, SECONDS, tuple(decisions.items()))
            match answer(question):
                case Evaluated(outcomes):
                    return outcomes
                case Undecided(checks):
                    decisions |= {check: self._decide(read_json(check)) for check in checks}
                case _:
                    return None
        raise EvaluationError(UNDECIDED)

    def matches(self, conditions: tuple[Condition, ...], scope: Any, data: dict[str, Any]) -> bool:
        """Return True if all conditions hold. Raises EvaluationError, NotAnswered."""
        if not conditions:
            return True
        outcomes = self.outcomes([(condition.expression, scope) for condition in conditions], data, len(conditions))
        if outcomes is None:
            raise NotAnswered
        return all_hold(conditions, outcomes)

    def _decide(self, asked: Any) -> bool:
        user = _account(asked["account"]) if "account" in asked else self._change.author
        wanted = Attributes(
            verb=asked["verb"],
            path=asked.get("path", ""),
            group=asked.get("group", ""),
            resource=asked.get("resource", ""),
            subresource=asked.get("subresource", ""),
            namespace=asked.get("namespace", ""),
            name=asked.get("name", ""),
        )
        return self._authorizer.allows(user, wanted)


def value_of(outcome: Outcome) -> Any:
    """Return the value of an expression. Raises its CelError."""
    if isinstance(outcome, WorkerFault):
        raise error_of(outcome)
    return outcome.value if isinstance(outcome, Value) else None


def all_hold(conditions: Sequence[Condition], outcomes: Sequence[Outcome]) -> bool:
    """Return True if all conditions hold. One that is false outweighs errors of others. Raises EvaluationError."""
    faults = dict[str, None]()
    for condition, outcome in zip(conditions, outcomes, strict=False):
        try:
            if value_of(outcome) is not True:
                return False
        except CelError as error:
            faults[fault_of(condition.expression, error)] = None
    if faults:
        raise EvaluationError(", ".join(faults) if len(faults) == 1 else f"[{', '.join(faults)}]")
    return True


def fault_of(expression: str, error: CelError) -> str:
    """Return upstream's text of an expression that failed; a spent budget has its own."""
    text = str(error)
    return text if text == SPENT else f"expression '{expression}' resulted in error: {text}"


def _account(name: str) -> User:
    return User(name, account_groups(name.split(":")[2]))


def _shown_namespace(namespace: Object | None) -> Object | None:
    if namespace is None:
        return None
    metadata = {key: value for key, value in namespace["metadata"].items() if key != "managedFields"}
    return {**namespace, "metadata": metadata}


def request_of(change: Change, row: Any, new: Object | None, old: Object | None) -> Object:
    """Return the AdmissionRequest without its objects; `row`: the version that the rules cover."""
    target, asked = change.target, change.target.resource
    part, name = target.subresource, target.name or at(new, "metadata", "name") or at(old, "metadata", "name")
    return {
        "kind": _kind(row, part),
        "resource": {"group": row.group, "version": row.version, "resource": row.plural},
        **({"subResource": part} if part else {}),
        "requestKind": _kind(asked, part),
        "requestResource": {"group": asked.group, "version": asked.version, "resource": asked.plural},
        **({"requestSubResource": part} if part else {}),
        "name": str(name or ""),
        "namespace": change.namespace,
        "operation": change.operation,
        "userInfo": _user_info(change.author),
        "dryRun": change.options.dry_run,
        "options": _options(change) or None,
    }


def _options(change: Change) -> Object:
    patches = change.target.verb == "patch" and change.operation == UPDATE
    kind = "PatchOptions" if patches else OPTIONS.get(change.operation, "")
    if not kind:
        return {}
    options = change.options
    given = {
        "fieldManager": options.manager,
        "fieldValidation": "" if options.validation == DEFAULTS.validation else options.validation,
        "dryRun": ["All"] if options.dry_run else [],
        **options.deletion,
    }
    shown: Object = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    shown |= {name: value for name, value in given.items() if value not in ("", None, [], {})}
    return shown if options.force is None else {**shown, "force": options.force}


def _kind(row: Any, subresource: str) -> Object:
    part = row.subresource(subresource) if subresource else None
    if part is not None and part.kind:
        return {"group": part.group, "version": part.version or row.version, "kind": part.kind}
    return {"group": row.group, "version": row.version, "kind": row.kind}


def _user_info(user: User) -> Object:
    info: Object = {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        info["uid"] = user.uid
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra}
    return info
