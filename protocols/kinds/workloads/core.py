"""Core workloads: replication controllers and templates of pods."""

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.served.columns import AGE, NAME
from protocols.kinds.served.row import STATUS_VERBS, Column, Served, Subresource
from protocols.kinds.served.strategy import deferred
from protocols.kinds.workloads.columns import COUNTS, SCALE, WORKLOAD, container_columns, labels, number_text

STRATEGIES = "protocols.kinds.workloads.replication"

CONTROLLERS = Served(
    **asdict(kinds.REPLICATIONCONTROLLERS),
    strategy=deferred(STRATEGIES, "ReplicationStrategy", propagation="Orphan", **WORKLOAD),
    columns=(NAME, *COUNTS, AGE, *container_columns(), Column("Selector", labels("spec", "selector"), 1)),
    subresources=(
        Subresource("scale", STATUS_VERBS, "Scale", "autoscaling", "v1"),
        Subresource("status", STATUS_VERBS, "ReplicationController", version="v1"),
    ),
    fields={"status.replicas": number_text("status", "replicas")},
    scale_paths=SCALE,
)

TEMPLATES = Served(
    **asdict(kinds.PODTEMPLATES),
    strategy=deferred(STRATEGIES, "TemplateStrategy", has_generation=True),
    columns=(
        NAME,
        *container_columns("template", priority=0),
        Column("Pod Labels", labels("template", "metadata", "labels")),
    ),
    returns_object=True,
)

ROWS = (CONTROLLERS, TEMPLATES)
