"""Core workloads: replication controllers and templates of pods."""

from actors.apiserver.api.resource import STATUS_VERBS, Column, Resource, Subresource
from actors.apiserver.api.strategy import deferred
from actors.apiserver.resources.cells import AGE, NAME, field
from actors.apiserver.resources.workloads.cells import COUNTS, SCALE, WORKLOAD, container_columns, labels

STRATEGIES = "actors.apiserver.resources.workloads.replication"

CONTROLLERS = Resource(
    group="",
    version="v1",
    plural="replicationcontrollers",
    singular="replicationcontroller",
    kind="ReplicationController",
    namespaced=True,
    strategy=deferred(STRATEGIES, "ReplicationStrategy", propagation="Orphan", **WORKLOAD),
    prefix="controllers",
    short_names=("rc",),
    categories=("all",),
    columns=(NAME, *COUNTS, AGE, *container_columns(), Column("Selector", labels("spec", "selector"), 1)),
    subresources=(
        Subresource("scale", STATUS_VERBS, "Scale", "autoscaling", "v1"),
        Subresource("status", STATUS_VERBS, "ReplicationController", version="v1"),
    ),
    fields={"status.replicas": field("status", "replicas")},
    scale_paths=SCALE,
)

TEMPLATES = Resource(
    group="",
    version="v1",
    plural="podtemplates",
    singular="podtemplate",
    kind="PodTemplate",
    namespaced=True,
    strategy=deferred(STRATEGIES, "TemplateStrategy", has_generation=True),
    columns=(
        NAME,
        *container_columns("template", priority=0),
        Column("Pod Labels", labels("template", "metadata", "labels")),
    ),
)

ROWS = (CONTROLLERS, TEMPLATES)
