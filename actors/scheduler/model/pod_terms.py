"""The rules of a pod about other pods, from its spec: affinity, anti-affinity, topology spread. Pure.

matchLabelKeys and mismatchLabelKeys are not read: the API server merges them into the selectors of a new pod.

Bounded: a pod with more terms, or longer selectors, has a fault instead of rules, and is not scheduled.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from protocols.kinds import views
from protocols.kube.errors import SelectorInvalid
from protocols.kube.selectors import LabelSelector, label_selector_from_object

MAX_TERMS = 64
"""Terms and spread constraints of a pod."""
MAX_PARTS = 1_000
"""Requirements, values and namespaces of these terms together."""
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
Labels = Mapping[str, str]


class PodTerm(msgspec.Struct, frozen=True):
    """Pods by labels and namespace, and the label of nodes that says which of them are near each other."""

    topology_key: str
    selector: LabelSelector | None
    """None matches no pod."""
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None = None

    def matcher(self) -> Callable[[str, Labels, Labels], bool]:
        """Return a test of a pod's namespace, its labels and the namespace's labels."""
        if self.selector is None:
            return _no_pod
        selected = self.selector.matcher()
        names, by_labels = self.namespaces, self.namespace_selector and self.namespace_selector.matcher()
        every = self.namespace_selector is not None and not self.namespace_selector.requirements

        def matches(namespace: str, labels: Labels, namespace_labels: Labels) -> bool:
            inside = every or namespace in names or bool(by_labels and by_labels(namespace_labels))
            return inside and selected(labels)

        return matches


class SpreadConstraint(msgspec.Struct, frozen=True):
    """One topology spread constraint; a selector of None matches no pod, nor does one without requirements."""

    topology_key: str
    max_skew: int
    selector: LabelSelector | None
    min_domains: int = 1
    honors_affinity: bool = True
    """True if nodes that the pod's node affinity rejects are no domains."""
    honors_taints: bool = False
    """True if nodes with taints that the pod does not tolerate are no domains."""


class PodRules(msgspec.Struct, frozen=True):
    """The rules of one pod."""

    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferred: tuple[tuple[int, PodTerm], ...] = ()
    """With weights; those of anti-affinity are negative."""
    spread: tuple[SpreadConstraint, ...] = ()
    """Constraints that forbid nodes (DoNotSchedule)."""
    preferred_spread: tuple[SpreadConstraint, ...] = ()
    """Constraints that only score (ScheduleAnyway)."""
    fault: str = ""
    """Why the rules cannot be read."""


NO_RULES = PodRules()


def has_pod_rules(pod: views.Pod) -> bool:
    """Return True if a pod of whatever shape may have rules."""
    spec = pod.get("spec") or {}
    affinity = spec.get("affinity")
    about_pods = isinstance(affinity, dict) and ("podAffinity" in affinity or "podAntiAffinity" in affinity)
    return about_pods or bool(spec.get("topologySpreadConstraints"))


def _no_pod(namespace: str, labels: Labels, namespace_labels: Labels) -> bool:
    return False


Affinity = views.PodAffinity | views.PodAntiAffinity
Term = views.PodAffinityTerm | views.TopologySpreadConstraint


def pod_rules(spec: views.PodSpec, namespace: str) -> PodRules:
    """Read the rules of a pod; NO_RULES is the one object for all pods without any."""
    if "affinity" not in spec and "topologySpreadConstraints" not in spec:
        return NO_RULES
    affinity = spec.get("affinity") or {}
    near, far = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}
    spread = spec.get("topologySpreadConstraints") or ()
    if not (near or far or spread):
        return NO_RULES
    if fault := _fault((*_terms(near), *_terms(far), *spread)):
        return PodRules(fault=fault)
    reader = _Reader(namespace)
    try:
        return PodRules(
            affinity=reader.terms(near.get(REQUIRED)),
            anti_affinity=reader.terms(far.get(REQUIRED)),
            preferred=(*reader.weighted(near.get(PREFERRED), 1), *reader.weighted(far.get(PREFERRED), -1)),
            spread=reader.constraints(spread, "DoNotSchedule"),
            preferred_spread=reader.constraints(spread, "ScheduleAnyway"),
        )
    except SelectorInvalid as error:
        return PodRules(fault=f"the pod's affinity or topology spread cannot be read: {error}")


def _terms(affinity: Affinity) -> Iterable[views.PodAffinityTerm]:
    yield from affinity.get(REQUIRED) or ()
    for term in affinity.get(PREFERRED) or ():
        yield term.get("podAffinityTerm") or {}


def _fault(terms: tuple[Term, ...]) -> str:
    if len(terms) > MAX_TERMS:
        return f"the pod has {len(terms)} pod affinity terms and topology spread constraints, at most {MAX_TERMS} fit"
    parts = sum(map(_size, terms))
    if parts > MAX_PARTS:
        return f"the selectors of the pod's affinity and topology spread have {parts} parts, at most {MAX_PARTS} fit"
    return ""


def _size(term: Mapping[str, Any]) -> int:
    parts = len(term.get("namespaces") or ())
    for selector in (term.get("labelSelector") or {}, term.get("namespaceSelector") or {}):
        parts += len(selector.get("matchLabels") or ())
        parts += sum(1 + len(expression.get("values") or ()) for expression in selector.get("matchExpressions") or ())
    return parts


class _Reader:
    """Reads terms of one pod. Methods raise SelectorInvalid."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def terms(self, terms: Iterable[views.PodAffinityTerm] | None) -> tuple[PodTerm, ...]:
        return tuple(map(self._term, terms or ()))

    def weighted(
        self, terms: Iterable[views.WeightedPodAffinityTerm] | None, sign: int
    ) -> Iterable[tuple[int, PodTerm]]:
        for term in terms or ():
            yield sign * int(term["weight"]), self._term(term.get("podAffinityTerm") or {})

    def constraints(
        self, constraints: Iterable[views.TopologySpreadConstraint], action: str
    ) -> tuple[SpreadConstraint, ...]:
        return tuple(
            self._constraint(constraint) for constraint in constraints if constraint.get("whenUnsatisfiable") == action
        )

    def _term(self, term: views.PodAffinityTerm) -> PodTerm:
        named, by_labels = term.get("namespaces") or (), term.get("namespaceSelector")
        namespaces = frozenset(map(str, named)) if named or by_labels is not None else frozenset((self._namespace,))
        selected = None if by_labels is None else label_selector_from_object(by_labels)
        return PodTerm(str(term.get("topologyKey") or ""), self._selector(term), namespaces, selected)

    def _constraint(self, constraint: views.TopologySpreadConstraint) -> SpreadConstraint:
        return SpreadConstraint(
            topology_key=str(constraint.get("topologyKey") or ""),
            max_skew=int(constraint["maxSkew"]),
            selector=self._selector(constraint) or None,
            min_domains=int(constraint.get("minDomains") or 1),
            honors_affinity=constraint.get("nodeAffinityPolicy") != "Ignore",
            honors_taints=constraint.get("nodeTaintsPolicy") == "Honor",
        )

    def _selector(self, term: Term) -> LabelSelector | None:
        given = term.get("labelSelector")
        return None if given is None else label_selector_from_object(given)
