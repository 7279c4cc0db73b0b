"""Evaluate ValidatingAdmissionPolicies for one write. Texts, reasons and codes are upstream's."""

from collections.abc import Sequence
from typing import Any

import msgspec

from actors.apiserver.api.errors import ApiError, BodyTooLarge, Forbidden, Invalid
from actors.apiserver.api.request.target import details
from actors.apiserver.writes.admission.policies.evaluation import (
    Condition,
    Input,
    all_hold,
    fault_of,
    read_conditions,
    value_of,
)
from actors.apiserver.writes.admission.policies.matching import EVERYTHING, Match, read_match
from actors.apiserver.writes.change import Change
from protocols.cel.text.source import CelError
from protocols.cel.worker.messages import Outcome
from protocols.kube.meta import Object
from protocols.kube.objects import at, items

MESSAGE_BYTES, ANNOTATION_BYTES = 5 * 1024, 10 * 1024
FAILURE = "validation.policy.admission.k8s.io/validation_failure"
REASONS: dict[str, type[ApiError]] = {"Forbidden": Forbidden, "RequestEntityTooLarge": BodyTooLarge}


class _Validation(msgspec.Struct, frozen=True):
    expression: str
    message: str
    message_expression: str
    reason: str


class Policy(msgspec.Struct, frozen=True):
    """A policy of either kind."""

    name: str
    match: Match
    conditions: tuple[Condition, ...]
    scope: Any
    """Scope of protocols.cel.policies: its variables, and whether it has parameters."""
    ignores: bool
    """failurePolicy is Ignore."""
    kind: Object | None
    """paramKind."""
    spec: Object
    """Without matchConstraints, which `match` is made of."""

    @property
    def plain(self) -> Any:
        """Scope of expressions that may not use the authorizer."""
        return self.scope._replace(authorizer=False)


class Binding(msgspec.Struct, frozen=True):
    """A binding of a policy; `match` None matches what the policy matches."""

    name: str
    policy: str
    match: Match | None
    reference: Object | None
    actions: tuple[str, ...]


def read_policy(obj: Object) -> Policy:
    """Read a stored policy; CEL is loaded here."""
    from protocols.cel.policies import PolicyScope

    spec = obj["spec"]
    variables = tuple((str(variable["name"]), str(variable["expression"])) for variable in items(spec, "variables"))
    kind = spec.get("paramKind")
    return Policy(
        name=obj["metadata"]["name"],
        match=read_match(spec.get("matchConstraints") or {}),
        conditions=read_conditions(spec),
        scope=PolicyScope(params=kind is not None, variables=variables),
        ignores=spec.get("failurePolicy") == "Ignore",
        kind=kind,
        spec={key: value for key, value in spec.items() if key != "matchConstraints"},
    )


def read_binding(obj: Object) -> Binding:
    """Read a stored binding; without matchResources it matches all that its policy does."""
    spec = obj["spec"]
    match = spec.get("matchResources")
    return Binding(
        name=obj["metadata"]["name"],
        policy=str(spec.get("policyName") or ""),
        match=None if match is None else read_match(match, default=(EVERYTHING,)),
        reference=spec.get("paramRef"),
        actions=tuple(map(str, spec.get("validationActions") or ())),
    )


class _Denial(msgspec.Struct, frozen=True):
    message: str
    reason: str = "Invalid"


class Findings:
    """Findings of policies: warnings for the author, audit annotations, denials in the order of the policies."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.annotations: dict[str, str] = {}
        self.denials: list[_Denial] = []

    def annotate(self, key: str, value: str) -> None:
        """Add a value; several different ones of one key are joined."""
        held = self.annotations.get(key)
        if held is None:
            self.annotations[key] = value
        elif value not in held.split(", "):
            self.annotations[key] = f"{held}, {value}"


class Evaluation:
    """One policy, evaluated for one write with one binding."""

    def __init__(self, policy: Policy, binding: Binding, given: Input, findings: Findings) -> None:
        self._policy, self._binding, self._given, self._findings = policy, binding, given, findings

    def run(self, data: dict[str, Any]) -> None:
        """Evaluate with the parameters in `data`."""
        policy, bare = self._policy, self._policy.scope._replace(variables=())
        validations = [_read_validation(raw) for raw in items(policy.spec, "validations")]
        annotations = [(str(raw["key"]), str(raw["valueExpression"])) for raw in items(policy.spec, "auditAnnotations")]
        expressions = [(condition.expression, bare) for condition in policy.conditions]
        gates = len(expressions)
        expressions += [(validation.expression, policy.scope) for validation in validations]
        expressions += [(expression, policy.scope) for _, expression in annotations]
        try:
            outcomes = self._given.outcomes(expressions, data, gates)
            if outcomes is None or not all_hold(policy.conditions, outcomes[:gates]):
                return
        except CelError as error:
            self._failed(0, str(error))
            return
        behind = iter(outcomes[gates:])
        for index, validation in enumerate(validations):
            self._validate(index, validation, next(behind), data)
        for key, expression in annotations:
            self._annotate(key, expression, next(behind))

    def broken(self, text: str) -> None:
        """Report a binding that cannot be evaluated."""
        if not self._policy.ignores:
            self._findings.denials.append(_Denial(self._denied(text)))

    def _validate(self, index: int, validation: _Validation, outcome: Outcome, data: dict[str, Any]) -> None:
        try:
            if value_of(outcome) is True:
                return
        except CelError as error:
            self._failed(index, fault_of(validation.expression, error))
            return
        self._act(index, self._message(validation, data), validation.reason)

    def _message(self, validation: _Validation, data: dict[str, Any]) -> str:
        text = ""
        if validation.message_expression:
            try:
                value = self._given.value(validation.message_expression, self._policy.plain, data)
            except CelError:
                value = ""
            text = value.strip() if isinstance(value, str) else ""
            text = "" if "\n" in text or len(text.encode()) > MESSAGE_BYTES else text
        return text or validation.message.strip() or f"failed expression: {validation.expression.strip()}"

    def _failed(self, index: int, text: str) -> None:
        if not self._policy.ignores:
            self._act(index, text, "")

    def _act(self, index: int, message: str, reason: str) -> None:
        policy, binding, findings = self._policy, self._binding, self._findings
        for action in binding.actions:
            if action == "Deny":
                findings.denials.append(_Denial(self._denied(message), reason or "Invalid"))
            elif action == "Warn":
                text = f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}'"
                findings.warnings.append(f"{text}: {message}")
            elif action == "Audit":
                findings.annotations[FAILURE] = self._failure(index, message)

    def _failure(self, index: int, message: str) -> str:
        failure = {
            "message": message,
            "policy": self._policy.name,
            "binding": self._binding.name,
            "expressionIndex": index,
            "validationActions": list(self._binding.actions),
        }
        return msgspec.json.encode([failure]).decode()

    def _denied(self, message: str) -> str:
        name = f"ValidatingAdmissionPolicy '{self._policy.name}' with binding '{self._binding.name}'"
        return f"{name} denied request: {message}"

    def _annotate(self, key: str, expression: str, outcome: Outcome) -> None:
        try:
            value = value_of(outcome)
        except CelError as error:
            if not self._policy.ignores:
                self._findings.denials.append(_Denial(self._denied(fault_of(expression, error))))
            return
        if isinstance(value, str) and value.strip():
            self._findings.annotate(f"{self._policy.name}/{key}", value.strip()[:ANNOTATION_BYTES])


def _read_validation(raw: Object) -> _Validation:
    return _Validation(
        expression=str(raw.get("expression") or ""),
        message=str(raw.get("message") or ""),
        message_expression=str(raw.get("messageExpression") or ""),
        reason=str(raw.get("reason") or ""),
    )


def name_of(change: Change, new: Object | None) -> str:
    """Return the name of a written object as errors of admission show it."""
    name = change.target.name or at(new, "metadata", "name") or at(new, "metadata", "generateName") or "Unknown"
    return str(name)


def denied(change: Change, new: Object | None, denials: Sequence[_Denial]) -> ApiError:
    """Return the error of the first denial."""
    first, row = denials[0], change.target.resource
    name = name_of(change, new)
    cause = {"message": first.message}
    message = f'{row.full_name} "{name}" is forbidden: {first.message}'
    return REASONS.get(first.reason, Invalid)(message, {**details(row, name), "causes": [cause]})
