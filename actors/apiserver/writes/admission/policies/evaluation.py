"""Evaluate the expressions of one policy or webhook for one write, within a time limit.

Values are plain JSON; `variables` are part of each expression. Programs are cached by text.
"""

import time
from typing import Any

import msgspec

from actors.apiserver.api.budget import spend
from actors.apiserver.api.objects import at, items
from actors.apiserver.api.request.target import Attributes
from actors.apiserver.api.request.user import User, account_groups
from actors.apiserver.authorization.authorizer import Authorizer
from actors.apiserver.writes.admission.policies.matching import Write
from protocols.cel.text.source import CelError, EvaluationError
from protocols.kube.meta import Object

SECONDS = 1.0
"""Time limit for all expressions of one write, about as long as upstream's cost budget of a policy."""
SPENT = "validation failed due to running out of cost budget, no further validation rules will be run"


class Condition(msgspec.Struct, frozen=True):
    name: str
    expression: str


def read_conditions(spec: Object) -> tuple[Condition, ...]:
    found = items(spec, "matchConditions")
    return tuple(Condition(str(each.get("name")), str(each.get("expression")).strip()) for each in found)


class Input:
    """The values of one write that expressions read. Programs of one write share its deadline."""

    def __init__(self, write: Write, authorizer: Authorizer, namespace: Object | None) -> None:
        self._write = write
        self._authorizer = authorizer
        self._namespace = _shown_namespace(namespace)
        self.deadline = 0.0

    def data(self, request: Object, new: Object | None, old: Object | None, params: Object | None) -> dict[str, Any]:
        from protocols.cel.libraries import authorizing

        write = self._write
        resource = {
            "group": write.row.group,
            "resource": write.row.plural,
            "subresource": write.subresource,
            "namespace": write.namespace,
            "name": str(request["name"]),
        }
        return {
            "object": new,
            "oldObject": old,
            "request": request,
            "params": params,
            "namespaceObject": self._namespace,
            authorizing.AUTHORIZER: authorizing.START,
            authorizing.REQUEST_RESOURCE: authorizing.request_resource(resource),
        }

    def value(self, expression: str, scope: Any, data: dict[str, Any]) -> Any:
        """Evaluate an expression in a Scope of protocols.cel.policies. Raises CelError, BudgetSpent."""
        from protocols.cel import policies
        from protocols.cel.libraries import authorizing

        if time.monotonic() > self.deadline:
            raise EvaluationError(SPENT)
        began = time.perf_counter()
        try:
            with authorizing.deciding(self._decide):
                return policies.program(expression, scope).value(data)
        finally:
            spend(int(1e6 * (time.perf_counter() - began)))

    def begin(self) -> None:
        """Start the time limit."""
        self.deadline = time.monotonic() + SECONDS

    def matches(self, conditions: tuple[Condition, ...], scope: Any, data: dict[str, Any]) -> bool:
        """Return True if all conditions hold. One that is false outweighs errors of others. Raises EvaluationError."""
        faults = []
        for condition in conditions:
            try:
                if self.value(condition.expression, scope, data) is not True:
                    return False
            except CelError as error:
                faults.append(fault_of(condition.expression, error))
        if faults:
            raise EvaluationError("; ".join(faults))
        return True

    def _decide(self, asked: Any) -> tuple[bool, str]:
        user = _account(asked["account"]) if "account" in asked else self._write.user
        wanted = Attributes(
            verb=asked["verb"],
            path=asked.get("path", ""),
            group=asked.get("group", ""),
            resource=asked.get("resource", ""),
            subresource=asked.get("subresource", ""),
            namespace=asked.get("namespace", ""),
            name=asked.get("name", ""),
        )
        return self._authorizer.allows(user, wanted), ""


def fault_of(expression: str, error: CelError) -> str:
    text = str(error)
    return text if text == SPENT else f"expression '{expression}' resulted in error: {text}"


def _account(name: str) -> User:
    return User(name, account_groups(name.split(":")[2]))


def _shown_namespace(namespace: Object | None) -> Object | None:
    if namespace is None:
        return None
    metadata = {key: value for key, value in namespace["metadata"].items() if key != "managedFields"}
    return {**namespace, "metadata": metadata}


def request_of(write: Write, row: Any, new: Object | None, old: Object | None) -> Object:
    """Return the AdmissionRequest without its objects; `row`: the version that the rules cover."""
    name = write.name or str(at(new, "metadata", "name") or at(old, "metadata", "name") or "")
    return {
        "kind": _kind(row, write.subresource),
        "resource": {"group": row.group, "version": row.version, "resource": row.plural},
        **({"subResource": write.subresource} if write.subresource else {}),
        "requestKind": _kind(write.row, write.subresource),
        "requestResource": {"group": write.row.group, "version": write.row.version, "resource": write.row.plural},
        **({"requestSubResource": write.subresource} if write.subresource else {}),
        **({"name": name} if name else {"name": ""}),
        "namespace": write.namespace,
        "operation": write.operation,
        "userInfo": user_info(write.user),
        "dryRun": write.dry_run,
        "options": write.options or None,
    }


def _kind(row: Any, subresource: str) -> Object:
    part = row.subresource(subresource) if subresource else None
    if part is not None and part.kind:
        return {"group": part.group, "version": part.version or row.version, "kind": part.kind}
    return {"group": row.group, "version": row.version, "kind": row.kind}


def user_info(user: User) -> Object:
    info: Object = {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        info["uid"] = user.uid
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra}
    return info
