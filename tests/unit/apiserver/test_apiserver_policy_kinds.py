"""Kinds of admissionregistration.k8s.io: defaults, validation, merge keys, columns (facts of upstream 1.36)."""

import copy
from typing import Any

import pytest

from actors.apiserver.table import TABLE
from protocols.kinds.patches.strategic import apply_strategic_patch
from protocols.kinds.served.row import Served
from protocols.kinds.shapes.registry import kind_shape
from protocols.kube.meta import Object

RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
POLICY = {
    "matchConstraints": {"resourceRules": [RULE]},
    "variables": [{"name": "count", "expression": "object.spec.containers.size()"}],
    "validations": [{"expression": "variables.count < 5", "messageExpression": "'has ' + string(variables.count)"}],
}
HOOK: Object = {
    "name": "a.example.com",
    "clientConfig": {"service": {"name": "s", "namespace": "ns"}},
    "rules": [RULE],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}
MUTATION = {"patchType": "JSONPatch", "jsonPatch": {"expression": '[JSONPatch{op: "add", path: "/a", value: 1}]'}}


def row(kind: str) -> Served:
    return next(each for each in TABLE.built_in if each.kind == kind)


def made(kind: str, **fields: Any) -> Object:
    obj: Object = {"metadata": {"name": "a"}, **copy.deepcopy(fields)}
    row(kind).strategy.default(obj)
    return obj


def faults(kind: str, **fields: Any) -> list[str]:
    causes = row(kind).strategy.validate_create(made(kind, **fields))
    return [f"{cause.reason.removeprefix('FieldValue')} {cause.field}" for cause in causes]


def policy(**changes: Any) -> list[str]:
    return faults("ValidatingAdmissionPolicy", spec={**POLICY, **changes})


def test_policy_has_upstreams_defaults() -> None:
    spec = made("ValidatingAdmissionPolicy", spec=POLICY)["spec"]
    match = spec["matchConstraints"]
    assert spec["failurePolicy"] == "Fail"
    assert (match["matchPolicy"], match["namespaceSelector"], match["objectSelector"]) == ("Equivalent", {}, {})
    assert match["resourceRules"][0]["scope"] == "*"


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, []),
        ({"failurePolicy": "Maybe"}, ["NotSupported spec.failurePolicy"]),
        ({"matchConstraints": None}, ["Required spec.matchConstraints"]),
        ({"matchConstraints": {}}, ["Required spec.matchConstraints.resourceRules"]),
        ({"validations": []}, ["Required spec.validations", "Required spec.auditAnnotations"]),
        ({"validations": [{"expression": "object.a +"}]}, ["Invalid spec.validations[0].expression"]),
        ({"validations": [{"expression": "'text'"}]}, ["Invalid spec.validations[0].expression"]),
        ({"validations": [{"expression": "variables.none"}]}, ["Invalid spec.validations[0].expression"]),
        ({"validations": [{"expression": "params.a"}]}, ["Invalid spec.validations[0].expression"]),
        ({"validations": [{"expression": "request.nothing"}]}, ["Invalid spec.validations[0].expression"]),
        ({"validations": [{"expression": "true", "reason": "Odd"}]}, ["NotSupported spec.validations[0].reason"]),
        ({"validations": [{"expression": "true", "message": "a\nb"}]}, ["Invalid spec.validations[0].message"]),
        ({"validations": [{"expression": "lists.range(100000000).size() > 1"}]},
         ["Forbidden spec.validations[0].expression"]),
        ({"variables": [{"name": "a b", "expression": "1"}]},
         ["Invalid spec.variables[0].name", "Invalid spec.validations[0].expression",
          "Invalid spec.validations[0].messageExpression"]),
        ({"variables": [{"name": "count", "expression": "variables.c"}]}, ["Invalid spec.variables[0].expression"]),
        ({"variables": [{"name": "count", "expression": "1"}] * 2}, []),
        ({"matchConditions": [{"name": "c", "expression": "1"}]}, ["Invalid spec.matchConditions[0].expression"]),
        ({"auditAnnotations": [{"key": "k", "valueExpression": "1"}]},
         ["Invalid spec.auditAnnotations[0].valueExpression"]),
        ({"paramKind": {"apiVersion": "v1"}}, ["Required spec.paramKind.kind"]),
        ({"paramKind": {"apiVersion": "/v1", "kind": "ConfigMap"}}, []),
    ],
)  # fmt: skip
def test_policy_with_one_fault_is_rejected_at_its_field(changes: Object, found: list[str]) -> None:
    assert policy(**changes) == found


def test_policy_with_a_parameter_kind_may_use_parameters() -> None:
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    assert policy(paramKind=kind, validations=[{"expression": "params.data.a == 'b'"}]) == []


def test_message_expression_has_no_authorizer() -> None:
    text = "authorizer.group('').resource('pods').check('get').reason()"
    assert policy(validations=[{"expression": "authorizer.group('').resource('pods').check('get').allowed()"}]) == []
    found = policy(validations=[{"expression": "true", "messageExpression": text}])
    assert found == ["Invalid spec.validations[0].messageExpression"]


def test_status_of_a_policy_is_left_to_its_controller() -> None:
    strategy = row("ValidatingAdmissionPolicy").strategy
    old = made("ValidatingAdmissionPolicy", spec=POLICY, status={"observedGeneration": 7})
    strategy.prepare_create(old)
    assert old["status"] == {}
    old["status"] = {"observedGeneration": 1, "typeChecking": {}}
    new = copy.deepcopy(old)
    new["spec"]["failurePolicy"] = "Ignore"
    new["status"] = {"observedGeneration": 7}
    strategy.prepare_update(new, old)
    assert new["status"] == old["status"]


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        ({"operations": []}, "Required operations"),
        ({"operations": ["*", "CREATE"]}, "Invalid operations"),
        ({"operations": ["READ"]}, "NotSupported operations[0]"),
        ({"apiVersions": []}, "Required apiVersions"),
        ({"resources": ["*", "pods"]}, "Invalid resources"),
        ({"resources": ["pods/*", "pods/exec"]}, "Invalid resources[1]"),
        ({"resourceNames": ["a/b"]}, "Invalid resourceNames[0]"),
        ({"scope": "All"}, "NotSupported scope"),
    ],
)
def test_rule_with_one_fault_is_rejected_at_its_field(rule: Object, field: str) -> None:
    kind, _, name = field.partition(" ")
    [found] = policy(matchConstraints={"resourceRules": [{**RULE, **rule}]})
    assert found == f"{kind} spec.matchConstraints.resourceRules[0].{name}"


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"policyName": "p", "validationActions": ["Deny", "Audit"]}, []),
        ({"validationActions": ["Deny"]}, ["Required spec.policyName"]),
        ({"policyName": "p", "validationActions": []}, ["Required spec.validationActions"]),
        ({"policyName": "p", "validationActions": ["Deny", "Warn"]}, ["Invalid spec.validationActions"]),
        ({"policyName": "p", "validationActions": ["Shout"]}, ["NotSupported spec.validationActions[0]"]),
        ({"policyName": "p", "validationActions": ["Deny"], "paramRef": {"name": "x"}},
         ["Required spec.paramRef.parameterNotFoundAction"]),
        ({"policyName": "p", "validationActions": ["Deny"], "paramRef": {"parameterNotFoundAction": "Deny"}},
         ["Required spec.paramRef"]),
        ({"policyName": "p", "validationActions": ["Deny"],
          "paramRef": {"name": "x", "selector": {}, "parameterNotFoundAction": ""}},
         ["Forbidden spec.paramRef.name", "Forbidden spec.paramRef.selector",
          "Required spec.paramRef.parameterNotFoundAction"]),
    ],
)  # fmt: skip
def test_binding_with_one_fault_is_rejected_at_its_field(spec: Object, found: list[str]) -> None:
    assert faults("ValidatingAdmissionPolicyBinding", spec=spec) == found


def test_mutating_policy_compiles_its_patches() -> None:
    spec = {"matchConstraints": {"resourceRules": [RULE]}, "reinvocationPolicy": "Never", "mutations": [MUTATION]}
    assert faults("MutatingAdmissionPolicy", spec=spec) == []
    apply = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{spec: Object.spec{a: 1}}"}}
    assert faults("MutatingAdmissionPolicy", spec={**spec, "mutations": [apply]}) == []
    wrong = {"patchType": "JSONPatch", "jsonPatch": {"expression": "'text'"}}
    found = faults("MutatingAdmissionPolicy", spec={**spec, "mutations": [wrong]})
    assert found == ["Invalid spec.mutations[0].jsonPatch.expression"]
    missing = faults("MutatingAdmissionPolicy", spec={**spec, "mutations": [{"patchType": "JSONPatch"}]})
    assert missing == ["Required spec.mutations[0].jsonPatch"]


def test_webhook_has_upstreams_defaults() -> None:
    [hook] = made("MutatingWebhookConfiguration", webhooks=[HOOK])["webhooks"]
    found = (hook["failurePolicy"], hook["matchPolicy"], hook["timeoutSeconds"], hook["reinvocationPolicy"])
    assert found == ("Fail", "Equivalent", 10, "Never")
    assert hook["clientConfig"]["service"]["port"] == 443
    assert hook["rules"][0]["scope"] == "*"


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, []),
        ({"name": "short"}, ["Invalid webhooks[0].name"]),
        ({"sideEffects": "Some"}, ["NotSupported webhooks[0].sideEffects"]),
        ({"timeoutSeconds": 31}, ["Invalid webhooks[0].timeoutSeconds"]),
        ({"clientConfig": {}}, ["Required webhooks[0].clientConfig"]),
        ({"clientConfig": {"url": "http://x/"}}, ["Invalid webhooks[0].clientConfig.url"]),
        ({"clientConfig": {"url": " https://x/"}}, ["Required webhooks[0].clientConfig.url"]),
        (
            {"clientConfig": {"service": {"name": "s", "namespace": "n", "path": "/p./"}}},
            ["Invalid webhooks[0].clientConfig.service.path"],
        ),
        ({"clientConfig": {"service": {"name": "s"}}}, ["Required webhooks[0].clientConfig.service.name"]),
        ({"admissionReviewVersions": ["v9"]}, ["Invalid webhooks[0].admissionReviewVersions"]),
    ],
)
def test_webhook_with_one_fault_is_rejected_at_its_field(changes: Object, found: list[str]) -> None:
    assert faults("ValidatingWebhookConfiguration", webhooks=[{**HOOK, **changes}]) == found


def test_webhooks_merge_by_their_name() -> None:
    old = {"metadata": {"name": "a"}, "webhooks": [HOOK, {**HOOK, "name": "b.example.com"}]}
    patch = {"webhooks": [{"name": "a.example.com", "timeoutSeconds": 3}]}
    new = apply_strategic_patch(
        kind_shape("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration"), copy.deepcopy(old), patch
    )
    assert [(hook["name"], hook.get("timeoutSeconds")) for hook in new["webhooks"]] == [
        ("a.example.com", 3),
        ("b.example.com", None),
    ]


@pytest.mark.parametrize(
    ("kind", "fields", "cells"),
    [
        ("ValidatingAdmissionPolicy", {"spec": POLICY}, {"Validations": 1, "ParamKind": "<unset>"}),
        ("ValidatingAdmissionPolicyBinding", {"spec": {"policyName": "p", "paramRef": {"name": "x"}}},
         {"PolicyName": "p", "ParamRef": "*/x"}),
        ("MutatingWebhookConfiguration", {"webhooks": [HOOK]}, {"Webhooks": 1}),
    ],
)  # fmt: skip
def test_columns_are_upstreams(kind: str, fields: Object, cells: Object) -> None:
    shown = {column.name: column.cell(made(kind, **fields)) for column in row(kind).columns}
    assert {name: shown[name] for name in cells} == cells
    assert next(iter(shown)) == "Name"
    assert list(shown)[-1] == "Age"
