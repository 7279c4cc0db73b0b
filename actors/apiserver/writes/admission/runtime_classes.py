"""What a pod's RuntimeClass adds to it: its overhead, and where it may run. Pure; the texts are those clients match."""

from collections.abc import Awaitable, Callable

from actors.apiserver.api.objects import Obj, at, items
from protocols.kube.errors import QuantityInvalid
from protocols.kube.quantity import Quantity, parse_quantity

Find = Callable[[str], Awaitable[Obj | None]]
"""A RuntimeClass by name, from the store if it is not seen yet; None: there is none."""


def names_class(pod: Obj) -> str:
    name = at(pod, "spec", "runtimeClassName")
    return name if isinstance(name, str) else ""


def concerns(pod: Obj) -> bool:
    return isinstance(pod.get("spec"), dict) and bool(names_class(pod) or at(pod, "spec", "overhead"))


def apply_class(pod: Obj, found: Obj | None) -> str:
    """In place; why the pod is refused, empty if it is not. `found`: the class it names, None: there is no such."""
    name = names_class(pod)
    if name and found is None:
        return f'pod rejected: RuntimeClass "{name}" not found'
    return _overhead(pod["spec"], found or {}) or _scheduling(pod["spec"], found or {})


def _overhead(spec: Obj, found: Obj) -> str:
    given, fixed = spec.get("overhead"), at(found, "overhead", "podFixed")
    if not isinstance(fixed, dict) or not fixed:
        return "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead" if given else ""
    if given and _amounts(given) != _amounts(fixed):
        return "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
    spec["overhead"] = dict(fixed)
    return ""


def _amounts(resources: object) -> dict[str, Quantity] | None:
    """None: no quantities, which validation names."""
    try:
        return {str(k): parse_quantity(str(v)) for k, v in resources.items()} if isinstance(resources, dict) else None
    except QuantityInvalid:
        return None


def _scheduling(spec: Obj, found: Obj) -> str:
    asked = spec.get("nodeSelector")
    selector: dict[str, object] = asked if isinstance(asked, dict) else {}
    for key, value in (at(found, "scheduling", "nodeSelector") or {}).items():
        own = selector.get(key, value)
        if own != value:
            where = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {own}"
            return f"conflict: {where}"
        selector = spec["nodeSelector"] = {**selector, key: value}
    given = items(spec, "tolerations")
    if added := [each for each in items(found, "scheduling", "tolerations") if each not in given]:
        spec["tolerations"] = [*given, *added]
    return ""
