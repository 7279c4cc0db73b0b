"""Apply the mutations of MutatingAdmissionPolicies: JSON patches, and configurations merged as by server-side apply."""

from typing import Any

from actors.apiserver.api.errors import ApiError
from actors.apiserver.api.request.target import details
from actors.apiserver.writes.admission.policies.evaluation import Input, fault_of
from actors.apiserver.writes.admission.policies.validating import Binding, Policy
from actors.apiserver.writes.change import Change
from actors.apiserver.writes.ownership.apply import ConfigInvalid, applied, without_nulls
from actors.apiserver.writes.ownership.entries import APPLY, Author
from actors.apiserver.writes.patches.json_patch import apply_json_patch
from protocols.cel.text.source import CelError
from protocols.errors import NodeplaneError
from protocols.kube.errors import KubeError
from protocols.kube.meta import Object
from protocols.kube.objects import fresh_copy, items, text

AUTHOR = "admission"


class MutationFailed(NodeplaneError):
    """Raised when a mutation cannot be evaluated or applied, with the reason."""


class PolicyRefused(ApiError):
    """Raised when a policy with failurePolicy Fail fails; upstream answers 500 with this message."""


def mutated(policy: Policy, given: Input, data: dict[str, Any], change: Change) -> Object:
    """Return the object after all mutations of a policy. Raises MutationFailed, BudgetSpent."""
    for mutation in items(policy.spec, "mutations"):
        data = {**data, "object": _mutated(policy, mutation, given, data, change)}
    result: Object = data["object"]
    return result


def _mutated(policy: Policy, mutation: Object, given: Input, data: dict[str, Any], change: Change) -> Object:
    from protocols.cel.text.mutations import as_maps

    patches = mutation.get("patchType") == "JSONPatch"
    expression = text(mutation, "jsonPatch" if patches else "applyConfiguration", "expression")
    try:
        value = given.value(as_maps(expression), policy.scope, data)
    except CelError as error:
        raise MutationFailed(fault_of(expression, error)) from None
    try:
        if patches:
            return apply_json_patch(data["object"], value)
        return _merged(data["object"], value, change)
    except (KubeError, ConfigInvalid, TypeError, RecursionError) as error:
        raise MutationFailed(f"error applying patch: {error}") from None


def _merged(obj: Object, value: Any, change: Change) -> Object:
    target = change.target
    shape = target.resource.shape
    if shape is None or not isinstance(value, dict):
        raise TypeError("the result is no object")
    config = without_nulls({**value, "apiVersion": obj["apiVersion"], "kind": obj["kind"]})
    author = Author(AUTHOR, APPLY, target.resource.api_version, target.subresource)
    return fresh_copy(applied(obj, config, shape, [], author, force=True).obj)


def refused(policy: Policy, binding: Binding, fault: str, change: Change) -> PolicyRefused:
    """Return the error of a mutation that failed."""
    message = f"policy '{policy.name}' with binding '{binding.name}' denied request: {fault}"
    return PolicyRefused(message, details(change.target.resource, change.target.name))
