"""ValidatingAdmissionPolicy, MutatingAdmissionPolicy and their bindings: defaults, validation, columns.

Every expression compiles before its policy is stored; types of objects are not known, so mistakes about fields show
when the policy is evaluated, as for unstructured objects upstream.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from protocols.cel.worker.messages import CheckPolicy
from protocols.kinds import table as kinds
from protocols.kinds.admission.rules import (
    EXPRESSIONS,
    MATCH,
    MUTATING_MATCH,
    conditions,
    default_match,
    expression,
    failure_policy,
    reinvocation_policy,
)
from protocols.kinds.check.causes import Cause, forbidden, invalid, required, too_many
from protocols.kinds.check.metadata import conditions as status_conditions
from protocols.kinds.check.selectors import label_selector
from protocols.kinds.check.table import (
    Causes,
    Check,
    Ordered,
    anything,
    causes_of,
    each,
    needed,
    one_of,
    present,
    texts,
    together,
    unique,
)
from protocols.kinds.check.values import path_segment, subdomain
from protocols.kinds.dra.selectors import Budget, compile_expression
from protocols.kinds.served.columns import AGE, NAME, cell
from protocols.kinds.served.row import STATUS_VERBS, Column, Served, Subresource
from protocols.kinds.served.strategy import METADATA, Strategy
from protocols.kinds.table import Resource
from protocols.kube.meta import Object
from protocols.kube.names import dns1035_faults, qualified_faults, subdomain_faults
from protocols.kube.objects import at, items, text

if TYPE_CHECKING:
    from protocols.cel.policies import PolicyScope

GROUP = "admissionregistration.k8s.io"
ANNOTATIONS, ANNOTATION_BYTES = 20, 5 * 1024
IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*", re.ASCII)
WORDS = re.compile(
    r"as|break|const|continue|else|false|for|function|if|import|in|let|loop|namespace|null|package|return|true|var|void"
    r"|while"
)
UNKNOWN = "dyn(null)"
MISSING = "expression is not specified"
NOTHING = "validations or auditAnnotations must contain at least one item"


def _kind_faults(name: str) -> list[str]:
    return [f"may have mixed case, but should otherwise match: {fault}" for fault in dns1035_faults(name.lower())]


def _api_version(path: str, api_version: str, causes: Causes) -> None:
    group, _, version = api_version.rpartition("/")
    if "/" in group:
        causes.append(invalid(path, api_version, f"unexpected GroupVersion string: {api_version}"))
        return
    if group:
        causes.extend(invalid(path, group, fault) for fault in subdomain_faults(group))
    causes.extend(invalid(path, version, fault) for fault in dns1035_faults(version))


def _spec(match: Check) -> Ordered:
    """Return the checks of a policy apart from its expressions."""
    some_rules = Ordered("resourceRules", resourceRules=needed(anything))
    return Ordered(
        "matchConstraints",
        failurePolicy=failure_policy,
        paramKind=Ordered("apiVersion kind", apiVersion=needed(_api_version), kind=needed(texts(_kind_faults))),
        matchConstraints=present(together(match, some_rules)),
    )


class PolicyStrategy(Strategy):
    """Fields and rules that validating and mutating policies share."""

    has_generation = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("failurePolicy", "Fail")
        if (match := spec.get("matchConstraints")) is not None:
            default_match(match)

    def validate_create(self, obj: Object) -> list[Cause]:
        """Check the rules, then conditions and variables, then what else the policy evaluates."""
        from protocols.cel.policies import PolicyScope

        spec, budget, causes = obj["spec"], Budget(), super().validate_create(obj)
        scope = PolicyScope(params=spec.get("paramKind") is not None)
        Ordered(matchConditions=conditions(scope, budget))("spec", spec, causes)
        scope = _with_variables(scope, items(spec, "variables"), budget, causes)
        return causes + self.expression_causes(obj, scope, budget)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return [] if new.get("spec") == old.get("spec") else self.validate_create(new)

    def expression_causes(self, obj: Object, scope: "PolicyScope", budget: Budget) -> list[Cause]:
        """Check the expressions that only this kind of policy has."""
        raise NotImplementedError


def _with_variables(scope: "PolicyScope", variables: list[Object], budget: Budget, causes: Causes) -> "PolicyScope":
    """Check variables, each of which may use those before it; return the scope of what follows them."""
    path = "spec.variables"
    if len(variables) > EXPRESSIONS:
        causes.append(too_many(path, len(variables), EXPRESSIONS))
    for index, variable in enumerate(variables[:EXPRESSIONS]):
        name, text, faults = variable.get("name") or "", variable.get("expression") or "", Causes()
        _variable_name(f"{path}[{index}].name", name, causes)
        expression(scope, budget, missing=MISSING)(f"{path}[{index}].expression", text, faults)
        if IDENTIFIER.fullmatch(name) and text.strip():  # uses of one that does not compile are no faults of their own
            scope = scope._replace(variables=(*scope.variables, (name, UNKNOWN if faults else text)))
        causes += faults
    return scope


def _variable_name(path: str, name: str, causes: Causes) -> None:
    """Check a name. Upstream lets a variable replace one of its name before it."""
    if not name.strip():
        causes.append(required(path, "name is not specified"))
    elif not IDENTIFIER.fullmatch(name) or WORDS.fullmatch(name):
        causes.append(invalid(path, name, "name is not a valid CEL identifier"))


def _message(path: str, message: str, causes: Causes) -> None:
    if message and not message.strip():
        causes.append(invalid(path, message, "message must be non-empty if specified"))
    elif "\n" in message.strip():
        causes.append(invalid(path, message, "message must not contain line breaks"))


def _validation(scope: "PolicyScope", budget: Budget) -> Ordered:
    def shown(path: str, text: str, causes: Causes) -> None:
        if text and not text.strip():
            causes.append(invalid(path, text, "must be non-empty if specified"))
        elif text:
            compile_expression(path, CheckPolicy(text, scope._replace(authorizer=False), ("STRING",)), budget, causes)

    return Ordered(
        "expression",
        expression=expression(scope, budget, "BOOL", missing=MISSING),
        messageExpression=shown,
        message=_message,
        reason=one_of("Forbidden", "Invalid", "RequestEntityTooLarge", empty=True),
    )


def _annotations(policy: str, scope: "PolicyScope", budget: Budget) -> Check:
    """Return the check of audit annotations, whose keys begin with the name of their policy."""
    result = expression(scope, budget, "STRING", "NULL", missing="valueExpression is not specified")

    def key(path: str, text: str, causes: Causes) -> None:
        full = f"{policy}/{text}"
        causes.extend(invalid(path, full, fault) for fault in qualified_faults(full))

    def value(path: str, text: str, causes: Causes) -> None:
        if len(text) > ANNOTATION_BYTES:
            causes.append(required(path, f"must not exceed {ANNOTATION_BYTES} bytes in length"))
        else:
            result(path, text, causes)

    annotation = Ordered("key valueExpression", key=key, valueExpression=value)
    some = each(annotation, key=lambda annotation: annotation.get("key") or "", at=".key")

    def check(path: str, annotations: list[Object], causes: Causes) -> None:
        if len(annotations) > ANNOTATIONS:
            text = f"must not have more than {ANNOTATIONS} auditAnnotations"
            causes.append(invalid(path, "<value omitted>", text))
        some(path, annotations[:ANNOTATIONS], causes)

    return check


_WARNING = Ordered("warning fieldRef", warning=needed(anything), fieldRef=needed(anything))


class _ValidatingPolicyStrategy(PolicyStrategy):
    has_status = True
    status_keeps = METADATA
    rules = Ordered(spec=_spec(MATCH))
    status_rules = Ordered(
        status=Ordered(typeChecking=Ordered(expressionWarnings=each(_WARNING)), conditions=status_conditions)
    )

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {}

    def expression_causes(self, obj: Object, scope: "PolicyScope", budget: Budget) -> list[Cause]:
        spec = obj["spec"]
        if not spec.get("validations") and not spec.get("auditAnnotations"):
            return [required("spec.validations", NOTHING), required("spec.auditAnnotations", NOTHING)]
        annotations = _annotations(at(obj, "metadata", "name") or "x", scope, budget)
        table = Ordered(
            validations=each(_validation(scope, budget), limit=EXPRESSIONS),
            auditAnnotations=annotations,
        )
        return causes_of(table, "spec", spec)


PATCHES = {"ApplyConfiguration": ("applyConfiguration", "MAP"), "JSONPatch": ("jsonPatch", "LIST")}
"""Field and type of the expression of each type of patch."""
_patch_type = needed(one_of(*PATCHES))


def _mutation(scope: "PolicyScope", budget: Budget) -> Check:
    def check(path: str, mutation: Object, causes: Causes) -> None:
        from protocols.cel.text.mutations import as_maps

        kind = mutation.get("patchType") or ""
        if kind not in PATCHES:
            _patch_type(f"{path}.patchType", kind, causes)
            return
        field, result = PATCHES[kind]
        causes.extend(
            invalid(f"{path}.{other}", f"{{{other}}}", f"must not be specified when patchType is {kind}")
            for other, _ in PATCHES.values()
            if other != field and mutation.get(other) is not None
        )
        if mutation.get(field) is None:
            causes.append(required(f"{path}.{field}", f"must be specified when patchType is {kind}"))
            return
        value = as_maps(text(mutation, field, "expression"))
        expression(scope, budget, result)(f"{path}.{field}.expression", value, causes)

    return check


class _MutatingPolicyStrategy(PolicyStrategy):
    rules = Ordered(
        spec=together(
            _spec(MUTATING_MATCH), Ordered("reinvocationPolicy", reinvocationPolicy=present(reinvocation_policy))
        )
    )

    def expression_causes(self, obj: Object, scope: "PolicyScope", budget: Budget) -> list[Cause]:
        mutations = each(_mutation(scope, budget), limit=EXPRESSIONS)
        some = Ordered("mutations", mutations=needed(mutations, "mutations must contain at least one item"))
        return causes_of(some, "spec", obj["spec"])


def _one_reference(path: str, reference: Object, causes: Causes) -> None:
    name, selector = reference.get("name") or "", reference.get("selector")
    if name:
        path_segment(f"{path}.name", name, causes)
    if name and selector is not None:
        text = "name and selector are mutually exclusive"
        causes += [forbidden(f"{path}.{field}", text) for field in ("name", "selector")]
    elif not name and selector is None:
        causes.append(required(path, "one of name or selector must be specified"))


NOT_BOTH = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and "
    "headers serves no purpose)"
)


def _not_twice(path: str, actions: list[str], causes: Causes) -> None:
    if {"Deny", "Warn"} <= set(actions):
        causes.append(invalid(path, actions, NOT_BOTH))


_actions = together(each(one_of("Audit", "Deny", "Warn", empty=True)), unique, _not_twice)
_missing_action = one_of("Deny", "Allow")
_REFERENCE = Ordered(
    "parameterNotFoundAction", selector=label_selector, parameterNotFoundAction=needed(_missing_action)
)
BINDING = {"policyName": needed(subdomain), "paramRef": together(_one_reference, _REFERENCE)}


class _BindingStrategy(Strategy):
    has_generation = True
    rules = Ordered(
        spec=Ordered(
            "policyName validationActions",
            **BINDING,
            matchResources=MATCH,
            validationActions=needed(_actions, "at least one validation action is required"),
        )
    )

    def default(self, obj: Object) -> None:
        if (match := at(obj, "spec", "matchResources")) is not None:
            default_match(match)


class _MutatingBindingStrategy(_BindingStrategy):
    rules = Ordered(spec=Ordered("policyName", **BINDING, matchResources=MUTATING_MATCH))


def _reference(obj: Object) -> str:
    reference = at(obj, "spec", "paramRef")
    if reference is None:
        return "<unset>"
    name = reference.get("name")
    return f"{reference.get('namespace') or '*'}/{name}" if name else "*"


def _param_kind(obj: Object) -> str:
    kind = at(obj, "spec", "paramKind")
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
VALIDATING_BINDINGS = _binding(kinds.VALIDATINGADMISSIONPOLICYBINDINGS, _BindingStrategy())
MUTATING = _policy(
    kinds.MUTATINGADMISSIONPOLICIES,
    _MutatingPolicyStrategy(),
    Column("Mutations", _count("spec", "mutations"), type="integer"),
)
MUTATING_BINDINGS = _binding(kinds.MUTATINGADMISSIONPOLICYBINDINGS, _MutatingBindingStrategy())

ROWS = (VALIDATING, VALIDATING_BINDINGS, MUTATING, MUTATING_BINDINGS)
