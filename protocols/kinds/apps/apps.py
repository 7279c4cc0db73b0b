"""apps/v1: deployments, replica sets, daemon sets, stateful sets and controller revisions."""

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.served.columns import AGE, NAME, NONE
from protocols.kinds.served.row import STATUS_VERBS, Column, Served, Subresource
from protocols.kinds.served.strategy import deferred
from protocols.kinds.workloads.columns import (
    COUNTS,
    SCALE,
    SELECTOR,
    WORKLOAD,
    container_columns,
    count,
    labels,
    number,
    ready,
)
from protocols.kube.meta import Object
from protocols.kube.objects import at, items

FOLDER = "protocols.kinds.apps"
STRATEGIES = f"{FOLDER}.strategies"
SCALING = Subresource("scale", STATUS_VERBS, "Scale", "autoscaling", "v1")


def _status(kind: str) -> Subresource:
    return Subresource("status", STATUS_VERBS, kind, "apps", "v1")


def _controller(obj: Object) -> str:
    """Format the controlling owner as `daemonset.apps/name`."""
    for owner in items(obj, "metadata", "ownerReferences"):
        if owner.get("controller"):
            group = str(owner.get("apiVersion") or "").rpartition("/")[0]
            kind = str(owner.get("kind") or "").lower()
            return f"{kind}.{group}/{owner.get('name')}" if group else f"{kind}/{owner.get('name')}"
    return NONE


DEPLOYMENTS = Served(
    **asdict(kinds.DEPLOYMENTS),
    strategy=deferred(STRATEGIES, "DeploymentStrategy", **WORKLOAD),
    columns=(
        NAME,
        Column("Ready", ready),
        Column("Up-to-date", number("status", "updatedReplicas")),
        Column("Available", number("status", "availableReplicas")),
        AGE,
        *container_columns(),
        SELECTOR,
    ),
    subresources=(SCALING, _status("Deployment")),
    scale_paths=SCALE,
)

REPLICASETS = Served(
    **asdict(kinds.REPLICASETS),
    strategy=deferred(STRATEGIES, "ReplicaSetStrategy", **WORKLOAD),
    columns=(NAME, *COUNTS, AGE, *container_columns(), SELECTOR),
    subresources=(SCALING, _status("ReplicaSet")),
    scale_paths=SCALE,
)

DAEMONSETS = Served(
    **asdict(kinds.DAEMONSETS),
    strategy=deferred(STRATEGIES, "DaemonSetStrategy", **WORKLOAD),
    columns=(
        NAME,
        count("Desired", "status", "desiredNumberScheduled"),
        count("Current", "status", "currentNumberScheduled"),
        count("Ready", "status", "numberReady"),
        count("Up-to-date", "status", "updatedNumberScheduled"),
        count("Available", "status", "numberAvailable"),
        Column("Node Selector", labels("spec", "template", "spec", "nodeSelector")),
        AGE,
        *container_columns(),
        SELECTOR,
    ),
    subresources=(_status("DaemonSet"),),
)

STATEFULSETS = Served(
    **asdict(kinds.STATEFULSETS),
    strategy=deferred(f"{FOLDER}.stateful", "StatefulSetStrategy", **WORKLOAD),
    columns=(NAME, Column("Ready", ready), AGE, *container_columns()),
    subresources=(SCALING, _status("StatefulSet")),
    scale_paths=SCALE,
)

REVISIONS = Served(
    **asdict(kinds.CONTROLLERREVISIONS),
    strategy=deferred(STRATEGIES, "RevisionStrategy"),
    columns=(NAME, Column("Controller", _controller), Column("Revision", lambda obj: at(obj, "revision") or 0), AGE),
)

ROWS = (REVISIONS, DAEMONSETS, DEPLOYMENTS, REPLICASETS, STATEFULSETS)
