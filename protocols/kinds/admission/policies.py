"""ValidatingAdmissionPolicy, MutatingAdmissionPolicy and their bindings: defaults, validation, columns.

Every expression compiles before its policy is stored; types of objects are not known, so mistakes about fields show
when the policy is evaluated, as for unstructured objects upstream.
"""

import re
from collections.abc import Callable
from typing import Any

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.admission.rules import (
    EXPRESSIONS,
    FAILURE_POLICIES,
    REINVOCATIONS,
    condition_causes,
    default_match,
    expression_causes,
    limit_causes,
    match_causes,
    mutable_causes,
    one_of,
    part,
)
from protocols.kinds.check.causes import Cause, duplicate, forbidden, invalid, required
from protocols.kinds.check.metadata import conditions
from protocols.kinds.check.selectors import label_selector
from protocols.kinds.check.table import causes_of, once
from protocols.kinds.dra.selectors import Budget
from protocols.kinds.served.columns import AGE, NAME, cell
from protocols.kinds.served.row import STATUS_VERBS, Column, Served, Subresource
from protocols.kinds.served.strategy import Strategy
from protocols.kinds.table import Resource
from protocols.kube.meta import Object
from protocols.kube.names import dns1035_faults, qualified_faults, subdomain_faults
from protocols.kube.objects import at, items, text

GROUP = "admissionregistration.k8s.io"
REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
ACTIONS = ("Audit", "Deny", "Warn")
ANNOTATIONS, ANNOTATION_BYTES = 20, 5 * 1024
IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*", re.ASCII)
WORDS = re.compile(
    r"as|break|const|continue|else|false|for|function|if|import|in|let|loop|namespace|null|package|return|true|var|void"
    r"|while"
)
UNKNOWN = "dyn(null)"
NOTHING = "validations or auditAnnotations must contain at least one item"


class PolicyStrategy(Strategy):
    """Fields and rules that validating and mutating policies share."""

    has_generation = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("failurePolicy", "Fail")
        if (match := part(spec, "matchConstraints")) is not None:
            default_match(match)

    def validate_create(self, obj: Object) -> list[Cause]:
        spec = obj["spec"]
        causes = one_of("spec.failurePolicy", spec.get("failurePolicy"), FAILURE_POLICIES)
        if (kind := part(spec, "paramKind")) is not None:
            causes += _kind_causes(kind)
        causes += self.match_causes(part(spec, "matchConstraints"))
        return causes + self.expression_causes(obj, spec, Budget())

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return [] if new.get("spec") == old.get("spec") else self.validate_create(new)

    def expression_causes(self, obj: Object, spec: Object, budget: Budget) -> list[Cause]:
        """Validate conditions and variables, then what else the policy evaluates."""
        from protocols.cel.policies import PolicyScope

        scope = PolicyScope(params=part(spec, "paramKind") is not None)
        causes = condition_causes("spec.matchConditions", items(spec, "matchConditions"), scope, budget)
        variables = items(spec, "variables")
        causes += limit_causes("spec.variables", variables)
        for index, variable in enumerate(variables[:EXPRESSIONS]):
            name, value = str(variable.get("name") or ""), str(variable.get("expression") or "")
            where = f"spec.variables[{index}]"
            causes += _variable_causes(where, name, [known for known, _ in scope.variables])
            if not value.strip():
                causes.append(required(f"{where}.expression", "expression is not specified"))
                continue
            faults = expression_causes(f"{where}.expression", value, scope, (), budget)
            if IDENTIFIER.fullmatch(name):  # uses of a variable that does not compile are no faults of their own
                scope = scope._replace(variables=(*scope.variables, (name, UNKNOWN if faults else value)))
            causes += faults
        return causes + self.own_causes(obj, spec, scope, budget)

    def match_causes(self, match: Object | None) -> list[Cause]:
        return _constraint_causes(match)

    def own_causes(self, obj: Object, spec: Object, scope: Any, budget: Budget) -> list[Cause]:
        raise NotImplementedError


def _variable_causes(path: str, name: str, known: list[str]) -> list[Cause]:
    if not name.strip():
        return [required(f"{path}.name", "name is not specified")]
    if not IDENTIFIER.fullmatch(name) or WORDS.fullmatch(name):
        return [invalid(f"{path}.name", name, "name is not a valid CEL identifier")]
    return [duplicate(f"{path}.name", name)] if name in known else []


def _kind_causes(kind: Object) -> list[Cause]:
    path, api_version, name = "spec.paramKind", str(kind.get("apiVersion") or ""), str(kind.get("kind") or "")
    causes = []
    group, slash, version = api_version.rpartition("/")
    if not api_version:
        causes.append(required(f"{path}.apiVersion"))
    elif "/" in group:
        causes.append(invalid(f"{path}.apiVersion", api_version, f"unexpected GroupVersion string: {api_version}"))
    else:
        faults = [(group, fault) for fault in (subdomain_faults(group) if slash else [])]
        faults += [(version, fault) for fault in dns1035_faults(version)]
        causes += [invalid(f"{path}.apiVersion", value, fault) for value, fault in faults]
    if not name:
        return [*causes, required(f"{path}.kind")]
    mixed = "may have mixed case, but should otherwise match: "
    return causes + [invalid(f"{path}.kind", name, mixed + fault) for fault in dns1035_faults(name.lower())]


def _constraint_causes(match: Object | None) -> list[Cause]:
    path = "spec.matchConstraints"
    if match is None:
        return [required(path)]
    some = [] if items(match, "resourceRules") else [required(f"{path}.resourceRules")]
    return match_causes(path, match) + some


class _ValidatingPolicyStrategy(PolicyStrategy):
    has_status = True

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {}

    def own_causes(self, obj: Object, spec: Object, scope: Any, budget: Budget) -> list[Cause]:
        validations, annotations = items(spec, "validations"), items(spec, "auditAnnotations")
        if not validations and not annotations:
            return [required("spec.validations", NOTHING), required("spec.auditAnnotations", NOTHING)]
        causes = limit_causes("spec.validations", validations)
        for index, validation in enumerate(validations[:EXPRESSIONS]):
            causes += _validation_causes(f"spec.validations[{index}]", validation, scope, budget)
        return causes + _annotation_causes(obj, annotations, scope, budget)

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        value = at(new, "status", "conditions")
        return causes_of(conditions, "status.conditions", value) if isinstance(value, list) else []


def _validation_causes(path: str, validation: Object, scope: Any, budget: Budget) -> list[Cause]:
    expression, message = str(validation.get("expression") or ""), str(validation.get("message") or "")
    shown, causes = str(validation.get("messageExpression") or ""), []
    if not expression.strip():
        causes.append(required(f"{path}.expression", "expression is not specified"))
    else:
        causes += expression_causes(f"{path}.expression", expression, scope, ("BOOL",), budget)
    if shown and not shown.strip():
        causes.append(invalid(f"{path}.messageExpression", shown, "must be non-empty if specified"))
    elif shown:
        plain = scope._replace(authorizer=False)
        causes += expression_causes(f"{path}.messageExpression", shown, plain, ("STRING",), budget)
    if message and not message.strip():
        causes.append(invalid(f"{path}.message", message, "message must be non-empty if specified"))
    elif "\n" in message.strip():
        causes.append(invalid(f"{path}.message", message, "message must not contain line breaks"))
    reason = validation.get("reason")
    return causes if reason is None else causes + one_of(f"{path}.reason", reason, REASONS)


def _annotation_causes(obj: Object, annotations: list[Object], scope: Any, budget: Budget) -> list[Cause]:
    path, causes, is_new = "spec.auditAnnotations", list[Cause](), once()
    if len(annotations) > ANNOTATIONS:
        text = f"must not have more than {ANNOTATIONS} auditAnnotations"
        causes.append(invalid(path, "<value omitted>", text))
    for index, annotation in enumerate(annotations[:ANNOTATIONS]):
        where, key, value = (
            f"{path}[{index}]",
            str(annotation.get("key") or ""),
            str(annotation.get("valueExpression") or ""),
        )
        full = f"{at(obj, 'metadata', 'name') or 'x'}/{key}"
        causes += [invalid(f"{where}.key", full, fault) for fault in qualified_faults(full)]
        if not value.strip():
            causes.append(required(f"{where}.valueExpression", "valueExpression is not specified"))
        elif len(value) > ANNOTATION_BYTES:
            text = f"must not exceed {ANNOTATION_BYTES} bytes in length"
            causes.append(required(f"{where}.valueExpression", text))
        else:
            causes += expression_causes(f"{where}.valueExpression", value, scope, ("STRING", "NULL"), budget)
        is_new(f"{where}.key", key, causes)
    return causes


class BindingStrategy(Strategy):
    """A binding; `actions`: those of a validating policy."""

    has_generation = True

    def __init__(self, actions: bool) -> None:
        self._actions = actions

    def default(self, obj: Object) -> None:
        if (match := part(obj, "spec", "matchResources")) is not None:
            default_match(match)

    def validate_create(self, obj: Object) -> list[Cause]:
        spec = obj.get("spec") or {}
        name = str(spec.get("policyName") or "")
        causes = [invalid("spec.policyName", name, fault) for fault in subdomain_faults(name)] if name else []
        causes = causes if name else [required("spec.policyName")]
        if (reference := part(spec, "paramRef")) is not None:
            causes += _reference_causes("spec.paramRef", reference)
        if (match := part(spec, "matchResources")) is not None:
            causes += match_causes("spec.matchResources", match)
            causes += [] if self._actions else mutable_causes("spec.matchResources", match)
        return causes + (_action_causes(spec.get("validationActions") or []) if self._actions else [])


def _reference_causes(path: str, reference: Object) -> list[Cause]:
    name, selector = str(reference.get("name") or ""), reference.get("selector")
    causes: list[Cause] = []
    if name and selector is not None:
        causes.append(forbidden(f"{path}.name", "name and selector are mutually exclusive"))
    elif name:
        causes += [invalid(f"{path}.name", name, "may not contain '/' or '%'")] if set("/%") & set(name) else []
    elif selector is None:
        causes.append(required(path, "one of name or selector must be specified"))
    if isinstance(selector, dict):
        causes += causes_of(label_selector, f"{path}.selector", selector)
    return causes + one_of(
        f"{path}.parameterNotFoundAction", reference.get("parameterNotFoundAction"), ("Allow", "Deny")
    )


def _action_causes(actions: list[Any]) -> list[Cause]:
    path, causes, is_new = "spec.validationActions", list[Cause](), once()
    for index, action in enumerate(actions):
        causes += one_of(f"{path}[{index}]", action, ACTIONS)
        is_new(f"{path}[{index}]", action, causes)
    if {"Deny", "Warn"} <= set(map(str, actions)):
        text = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API "
            "response and headers serves no purpose)"
        )
        causes.append(invalid(path, actions, text))
    return causes if actions else [*causes, required(path, "at least one validation action is required")]


class _MutatingPolicyStrategy(PolicyStrategy):
    def match_causes(self, match: Object | None) -> list[Cause]:
        return [*super().match_causes(match), *mutable_causes("spec.matchConstraints", match or {})]

    def own_causes(self, obj: Object, spec: Object, scope: Any, budget: Budget) -> list[Cause]:
        causes = one_of("spec.reinvocationPolicy", spec.get("reinvocationPolicy"), REINVOCATIONS)
        mutations = items(spec, "mutations")
        if not mutations:
            return [*causes, required("spec.mutations", "mutations must contain at least one item")]
        causes += limit_causes("spec.mutations", mutations)
        for index, mutation in enumerate(mutations[:EXPRESSIONS]):
            causes += _mutation_causes(f"spec.mutations[{index}]", mutation, scope, budget)
        return causes


def _mutation_causes(path: str, mutation: Object, scope: Any, budget: Budget) -> list[Cause]:
    field = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}.get(str(mutation.get("patchType")))
    if field is None:
        return one_of(f"{path}.patchType", mutation.get("patchType") or None, ("ApplyConfiguration", "JSONPatch"))
    other = "jsonPatch" if field == "applyConfiguration" else "applyConfiguration"
    causes = []
    if part(mutation, other) is not None:
        causes.append(invalid(f"{path}.{other}", mutation[other], f"must not be set when patchType is {field}"))
    value = text(mutation, field, "expression")
    if not value.strip():
        return [*causes, required(f"{path}.{field}.expression", "expression is not specified")]
    from protocols.cel.text.mutations import as_maps

    return causes + expression_causes(f"{path}.{field}.expression", as_maps(value), scope, MUTATIONS[field], budget)


MUTATIONS = {"applyConfiguration": ("MAP",), "jsonPatch": ("LIST",)}


def _reference(obj: Object) -> str:
    reference = part(obj, "spec", "paramRef")
    if reference is None:
        return "<unset>"
    namespace = f"{reference['namespace']}/" if reference.get("namespace") else ""
    return namespace + str(reference.get("name") or "*")


def _param_kind(obj: Object) -> str:
    kind = part(obj, "spec", "paramKind")
    return "<unset>" if kind is None else f"{text(kind, 'apiVersion')}/{text(kind, 'kind')}"


def _count(*path: str) -> Callable[[Object], int]:
    return lambda obj: len(items(obj, *path))


def _policy(row: Resource, strategy: Strategy, counted: Column, *parts: Subresource) -> Served:
    return Served(
        **asdict(row),
        strategy=strategy,
        columns=(NAME, counted, Column("ParamKind", _param_kind), AGE),
        subresources=parts,
        versioned_update=True,
    )


def _binding(row: Resource, strategy: Strategy) -> Served:
    return Served(
        **asdict(row),
        strategy=strategy,
        columns=(NAME, Column("PolicyName", cell("spec", "policyName")), Column("ParamRef", _reference), AGE),
        versioned_update=True,
    )


VALIDATING = _policy(
    kinds.VALIDATINGADMISSIONPOLICIES,
    _ValidatingPolicyStrategy(),
    Column("Validations", _count("spec", "validations"), type="integer"),
    Subresource("status", STATUS_VERBS, "ValidatingAdmissionPolicy", GROUP, "v1"),
)
VALIDATING_BINDINGS = _binding(kinds.VALIDATINGADMISSIONPOLICYBINDINGS, BindingStrategy(actions=True))
MUTATING = _policy(
    kinds.MUTATINGADMISSIONPOLICIES,
    _MutatingPolicyStrategy(),
    Column("Mutations", _count("spec", "mutations"), type="integer"),
)
MUTATING_BINDINGS = _binding(kinds.MUTATINGADMISSIONPOLICYBINDINGS, BindingStrategy(actions=False))

ROWS = (VALIDATING, VALIDATING_BINDINGS, MUTATING, MUTATING_BINDINGS)
