"""APIServices: one for each version of a group that this API server serves itself. Nothing is aggregated."""

from collections.abc import Iterable

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.check.causes import invalid
from protocols.kinds.check.table import Causes, Ordered, Struct, between, never
from protocols.kinds.served.columns import AGE, NAME
from protocols.kinds.served.row import STATUS_VERBS, Column, Served, Subresource
from protocols.kinds.served.strategy import METADATA, Strategy
from protocols.kube.meta import Object
from protocols.kube.objects import at, items
from protocols.kube.times import now

GROUP = "apiregistration.k8s.io"
AUTOMANAGED = "kube-aggregator.kubernetes.io/automanaged"
GROUP_PRIORITY, CORE_PRIORITY = 17_000, 18_000
LOCAL = {"type": "Available", "status": "True", "reason": "Local", "message": "Local APIServices are always available"}
NO_PROXY = "requests are not forwarded to other API servers"


def _name(path: str, obj: Object, causes: Causes) -> None:
    name, spec = obj["metadata"].get("name") or "", obj.get("spec") or {}
    if name != f"{spec.get('version') or ''}.{spec.get('group') or ''}":
        causes.append(invalid("metadata.name", name, 'must be `spec.version+"."+spec.group`'))


class _RegistrationStrategy(Strategy):
    has_status = True
    status_keeps = METADATA
    rules = Struct(
        also=_name,
        spec=Ordered(
            "groupPriorityMinimum=0 versionPriority=0",
            service=never(NO_PROXY),
            groupPriorityMinimum=between(1, 20_000, "must be between 1 and 20000"),
            versionPriority=between(1, 1000, "must be between 1 and 1000"),
        ),
    )

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"conditions": [{**LOCAL, "lastTransitionTime": now()}]}


def registrations(versions: dict[str, list[str]]) -> Iterable[Object]:
    """Return an APIService for each version of each group; the preferred version of a group comes first."""
    for group, names in versions.items():
        for index, version in enumerate(names):
            priority = CORE_PRIORITY if not group else GROUP_PRIORITY
            spec = {"version": version, "groupPriorityMinimum": priority, "versionPriority": max(1, 15 - index)}
            name, labels = f"{version}.{group}", {AUTOMANAGED: "onstart"}
            yield {
                "kind": "APIService",
                "apiVersion": f"{GROUP}/v1",
                "metadata": {"name": name, "labels": labels},
                "spec": {"group": group, **spec} if group else spec,
            }


def _available(obj: Object) -> str:
    condition = next((entry for entry in items(obj, "status", "conditions") if entry.get("type") == "Available"), {})
    return str(condition.get("status") or "Unknown")


def _service(obj: Object) -> str:
    service = at(obj, "spec", "service")
    return f"{service.get('namespace')}/{service.get('name')}" if isinstance(service, dict) else "Local"


REGISTRATIONS = Served(
    **asdict(kinds.APISERVICES),
    strategy=_RegistrationStrategy(),
    free_names=True,
    columns=(NAME, Column("Service", _service), Column("Available", _available), AGE),
    subresources=(Subresource("status", STATUS_VERBS, "APIService", GROUP, "v1"),),
)
