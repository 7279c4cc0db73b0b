"""Nodes and the Leases of their heartbeats.

The status of a node is set at creation, later through /status only. A PUT may create a Lease, and must name the
resourceVersion that it replaces.
"""

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.check.table import Ordered, at_least
from protocols.kinds.check.values import positive
from protocols.kinds.core.node_rules import NodeStrategy
from protocols.kinds.served.columns import AGE, NAME, NONE, cell, field
from protocols.kinds.served.row import STATUS_VERBS, Column, Served, Subresource
from protocols.kinds.served.strategy import Strategy
from protocols.kube.meta import Object
from protocols.kube.objects import at, items, text

ROLE_PREFIX = "node-role.kubernetes.io/"
ROLE_LABEL = "kubernetes.io/role"


def _status(obj: Object) -> str:
    ready = next((item for item in items(obj, "status", "conditions") if item.get("type") == "Ready"), None)
    words = {"True": "Ready", "False": "NotReady"}
    shown = "Unknown" if ready is None else words.get(text(ready, "status"), "NotReady")
    return f"{shown},SchedulingDisabled" if at(obj, "spec", "unschedulable") else shown


def _roles(obj: Object) -> str:
    roles = set()
    for key, value in (at(obj, "metadata", "labels") or {}).items():
        if key.startswith(ROLE_PREFIX) and key != ROLE_PREFIX:
            roles.add(key.removeprefix(ROLE_PREFIX))
        elif key == ROLE_LABEL and value:
            roles.add(str(value))
    return ",".join(sorted(roles)) or NONE


def _address(kind: str, obj: Object) -> str:
    return next((text(item, "address") for item in items(obj, "status", "addresses") if item.get("type") == kind), NONE)


def _kernel(obj: Object) -> str:
    version = text(obj, "status", "nodeInfo", "kernelVersion")
    architecture = text(obj, "status", "nodeInfo", "architecture")
    return f"{version} ({architecture})" if version and architecture else version or "<unknown>"


NODES = Served(
    **asdict(kinds.NODES),
    strategy=NodeStrategy(),
    columns=(
        NAME,
        Column("Status", _status),
        Column("Roles", _roles),
        AGE,
        Column("Version", cell("status", "nodeInfo", "kubeletVersion")),
        Column("Internal-IP", lambda obj: _address("InternalIP", obj), 1),
        Column("External-IP", lambda obj: _address("ExternalIP", obj), 1),
        Column("OS-Image", cell("status", "nodeInfo", "osImage", missing="<unknown>"), 1),
        Column("Kernel-Version", _kernel, 1),
        Column("Container-Runtime", cell("status", "nodeInfo", "containerRuntimeVersion", missing="<unknown>"), 1),
    ),
    subresources=(
        Subresource("proxy", ("create", "delete", "get", "patch", "update"), "NodeProxyOptions", version="v1"),
        Subresource("status", STATUS_VERBS, "Node", version="v1"),
    ),
    fields={"spec.unschedulable": lambda obj: field("spec", "unschedulable")(obj) or "false"},
)


class _LeaseStrategy(Strategy):
    rules = Ordered(spec=Ordered(leaseDurationSeconds=positive, leaseTransitions=at_least(0)))


LEASES = Served(
    **asdict(kinds.LEASES),
    strategy=_LeaseStrategy(),
    columns=(NAME, Column("Holder", cell("spec", "holderIdentity")), AGE),
    create_on_update=True,
    versioned_update=True,
)
