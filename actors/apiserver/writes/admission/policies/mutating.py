"""Apply the mutations of MutatingAdmissionPolicies: JSON patches, and configurations merged as by server-side apply."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from actors.apiserver.api.errors import Forbidden
from actors.apiserver.api.request.target import details
from actors.apiserver.writes.admission.policies.evaluation import Input, fault_of
from actors.apiserver.writes.admission.policies.validating import Binding, Policy, name_of
from actors.apiserver.writes.change import Change
from actors.apiserver.writes.ownership.apply import ConfigInvalid, applied, without_nulls
from actors.apiserver.writes.ownership.entries import APPLY, Author
from protocols.cel.text.source import CelError
from protocols.errors import NodeplaneError
from protocols.kinds.patches.json_patch import apply_json_patch
from protocols.kinds.shapes.shape import LIST, Shape
from protocols.kube.errors import KubeError, PatchTestFailed
from protocols.kube.meta import Object
from protocols.kube.objects import fresh_copy, items, text

AUTHOR = "admission"


class MutationFailed(NodeplaneError):
    """Raised when a mutation cannot be evaluated or applied, with the reason."""


def mutated(
    policy: Policy, given: Input, data: dict[str, Any], change: Change, failed: Callable[[str], None]
) -> Object:
    """Return the object after the mutations of a policy; those that fail are reported and left out.

    Raises BudgetSpent.
    """
    for mutation in items(policy.spec, "mutations"):
        try:
            data = {**data, "object": _mutated(policy, mutation, given, data, change)}
        except MutationFailed as error:
            failed(str(error))
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
    obj: Object = data["object"]
    try:
        return apply_json_patch(obj, value) if patches else _merged(obj, value, change)
    except PatchTestFailed:
        return obj  # as upstream: a test that fails is a condition, no error
    except (KubeError, ConfigInvalid, TypeError, RecursionError) as error:
        raise MutationFailed(f"{'JSON Patch' if patches else 'error applying patch'}: {error}") from None


def _merged(obj: Object, value: Any, change: Change) -> Object:
    target = change.target
    shape = target.resource.shape
    if shape is None or not isinstance(value, dict):
        raise TypeError("the result is no object")
    config = without_nulls({**value, "apiVersion": obj["apiVersion"], "kind": obj["kind"]})
    if atomic := list(_atomic(config, shape)):
        fault = "may not mutate atomic arrays, maps or structs"
        raise TypeError(f"invalid ApplyConfiguration: {fault}: {', '.join(atomic)}")
    author = Author(AUTHOR, APPLY, target.resource.api_version, target.subresource)
    return fresh_copy(applied(obj, config, shape, [], author, force=True).obj)


def _atomic(value: Any, shape: Shape, path: str = "") -> Iterator[str]:
    """Yield the paths of parts that are replaced as a whole, with what the author of the policy does not know of."""
    if isinstance(value, dict):
        if shape.atomic:
            yield path
        for name, part in value.items():
            if name in shape.fields:
                yield from _atomic(part, shape.fields[name], f"{path}.{name}")
    elif isinstance(value, list) and shape.form == LIST and shape.item is not None:
        if shape.leaf:
            yield path
        for index, part in enumerate(value):
            yield from _atomic(part, shape.item, f"{path}[{index}]")


def refused(policy: Policy, binding: Binding, faults: Sequence[str], change: Change, *, runs: bool) -> Forbidden:
    """Return the error of a policy that failed; `runs` is False if its parameters were not found."""
    texts = [f"policy '{policy.name}' with binding '{binding.name}' denied request: {fault}" for fault in faults]
    shown = details(change.target.resource, name_of(change, change.sent))
    error = Forbidden(texts[0], {**shown, "causes": [{"message": text} for text in texts]})
    if runs:
        error.status["reason"] = "Invalid"
    return error
