"""Table cells of workloads: counts, containers, images, selectors."""

from collections.abc import Callable

from protocols.kinds.served.columns import NONE
from protocols.kinds.served.row import Column
from protocols.kube.errors import KubeError
from protocols.kube.meta import Object
from protocols.kube.objects import at, items, text
from protocols.kube.selectors import selector_text

TEMPLATE = ("spec", "template")


def number(*path: str) -> Callable[[Object], int]:
    """Return a column function: the number at a path, 0 where there is none."""
    return lambda obj: at(obj, *path) or 0


def number_text(*path: str) -> Callable[[Object], str]:
    """Return a field function for selectors: the number at a path, "0" where there is none."""
    return lambda obj: str(at(obj, *path) or 0)


def count(title: str, *path: str) -> Column:
    """Return a column of the number at a path."""
    return Column(title, number(*path), type="integer")


def ready(obj: Object) -> str:
    """Return READY: ready replicas of those in the spec."""
    return f"{at(obj, 'status', 'readyReplicas') or 0}/{at(obj, 'spec', 'replicas') or 0}"


def label_text(labels: object) -> str:
    """Format labels as `a=b,c=d`."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) if isinstance(labels, dict) else ""


def labels(*path: str) -> Callable[[Object], str]:
    """Return a column function: the labels at a path as `k=v,...`, `<none>` where there are none."""
    return lambda obj: label_text(at(obj, *path)) or NONE


def selector(*path: str) -> Callable[[Object], str]:
    """Return a column function: the selector at a path in kubectl's notation, `<error>` if it is invalid."""

    def show(obj: Object) -> str:
        given = at(obj, *path)
        if given is None:
            return NONE
        try:
            return selector_text(given) or NONE
        except (KubeError, TypeError, ValueError, AttributeError):
            return "<error>"

    return show


def has_condition(job: Object, kind: str) -> bool:
    """Return True if the job's status has the condition `kind` with status "True"."""
    return any(
        condition.get("type") == kind and condition.get("status") == "True"
        for condition in items(job, "status", "conditions")
    )


def container_columns(*template: str, priority: int = 1) -> tuple[Column, Column]:
    """Return the columns of names and images, which upstream shows in wide output."""

    def joined(field: str) -> Callable[[Object], str]:
        return lambda obj: ",".join(text(item, field) for item in items(obj, *(template or TEMPLATE), *CONTAINERS))

    return Column("Containers", joined("name"), priority), Column("Images", joined("image"), priority)


WORKLOAD = {"has_status": True, "has_generation": True}
"""Flags of the strategies of workloads."""
SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".spec.selector",
}
CONTAINERS = ("spec", "containers")
COUNTS = (
    count("Desired", "spec", "replicas"),
    count("Current", "status", "replicas"),
    count("Ready", "status", "readyReplicas"),
)
SELECTOR = Column("Selector", selector("spec", "selector"), 1)
