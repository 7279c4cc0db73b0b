"""Priority admission: resolve a pod's PriorityClass, and allow one global default. Pure; messages equal upstream's."""

from collections.abc import Iterable

from actors.apiserver.writes.admission.rule import PodRule, Rule, Step
from actors.apiserver.writes.change import CREATE, UPDATE, Change
from protocols.kube.meta import Object, name_of
from protocols.kube.objects import at

LOWER = "PreemptLowerPriority"
NOT_GIVEN = "must not be provided in pod spec; priority admission controller computed"
FROM = "from the given PriorityClass name"


CLASSES = "priorityclasses.scheduling.k8s.io"


class Priority(PodRule):
    """Set a new pod's priority and preemption policy by its class, or by the global default."""

    async def complete(self, change: Change, pod: Object) -> None:
        if (find := self.given.priority_class) is None:
            return
        name = _class_name(pod)
        priority_class = await find(name) if name else default_class(self.given.priority_classes())
        change.reject(apply_priority(pod, priority_class))


class OneDefaultClass(Rule):
    """Check that no second PriorityClass is the global default."""

    step, covers = Step.CHECK_VALID, {CLASSES: (CREATE, UPDATE)}

    def apply(self, change: Change) -> None:
        creating = change.old is None
        change.reject(second_default(change.sent, self.given.priority_classes(), creating=creating))


def default_class(classes: Iterable[Object]) -> Object | None:
    """Return the class marked as the global default; of several, the one with the lowest value."""
    marked = [priority_class for priority_class in classes if priority_class.get("globalDefault")]
    return min(marked, key=lambda each: int(each.get("value") or 0), default=None)


def _class_name(pod: Object) -> str:
    name = at(pod, "spec", "priorityClassName")
    return name if isinstance(name, str) else ""


def apply_priority(pod: Object, priority_class: Object | None) -> str:
    """Set priority and preemption policy from the class that the pod names, or from the default class.

    Return why the pod is rejected; empty if it is not.
    """
    spec, named = pod["spec"], _class_name(pod)
    if named and priority_class is None:
        return f"no PriorityClass with name {named} was found"
    value, policy = (
        int((priority_class or {}).get("value") or 0),
        (priority_class or {}).get("preemptionPolicy") or LOWER,
    )
    given = spec.get("priority")
    if isinstance(given, int) and given != value:
        return f"the integer value of priority ({given}) {NOT_GIVEN} {value} {FROM}"
    asked = spec.get("preemptionPolicy")
    if asked is not None and asked != policy:
        return f"the string value of PreemptionPolicy ({asked}) {NOT_GIVEN} {policy} {FROM}"
    if priority_class is not None and not named:
        spec["priorityClassName"] = name_of(priority_class)
    spec["priority"], spec["preemptionPolicy"] = value, policy
    return ""


def second_default(new: Object, classes: Iterable[Object], *, creating: bool) -> str:
    """Return why a PriorityClass cannot be the global default; empty if it can, or is not meant to."""
    marked = default_class(classes) if new.get("globalDefault") else None
    if marked is None or (not creating and name_of(marked) == name_of(new)):
        return ""
    return f"PriorityClass {name_of(marked)} is already marked as default. Only one default can exist"
