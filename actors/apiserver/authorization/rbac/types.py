"""The words of RBAC, as read from its objects; whatever cannot be read grants nothing."""

from collections.abc import Callable, Mapping

import msgspec

GROUP = "rbac.authorization.k8s.io"
Selector = Callable[[Mapping[str, str]], bool]


_API_NAMES = {"groups": "apiGroups", "names": "resourceNames", "urls": "nonResourceURLs"}


class PolicyRule(msgspec.Struct, frozen=True, rename=_API_NAMES):
    """Verbs on resources of API groups, or on URLs. `*` matches all; empty `names` = every name."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    def compact(self) -> str:
        """How clients are told of a rule they lack."""
        parts = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.urls),
            ("ResourceNames", self.names),
            ("Verbs", self.verbs),
        )
        return "{" + ", ".join(f"{title}:{quoted(values)}" for title, values in parts if values) + "}"

    def as_object(self) -> dict[str, list[str]]:
        parts = (
            ("verbs", self.verbs),
            ("apiGroups", self.groups),
            ("resources", self.resources),
            ("resourceNames", self.names),
            ("nonResourceURLs", self.urls),
        )
        return {key: list(values) for key, values in parts if values}


class Role(msgspec.Struct, frozen=True):
    """A Role or ClusterRole. `selectors` None = its own rules count, else those of the cluster roles they select."""

    rules: tuple[PolicyRule, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    selectors: tuple[Selector, ...] | None = None


class Subject(msgspec.Struct, frozen=True):
    """Service accounts are told by their user name."""

    kind: str
    """User or Group."""
    name: str


class Binding(msgspec.Struct, frozen=True):
    """`namespace` empty = of the whole cluster."""

    name: str
    namespace: str
    role_kind: str
    role_name: str
    subjects: tuple[Subject, ...]


class Decision(msgspec.Struct, frozen=True):
    allowed: bool
    reason: str = ""


def quoted(values: tuple[str, ...]) -> str:
    return "[" + " ".join(f'"{value}"' for value in values) + "]"
