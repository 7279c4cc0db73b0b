"""Which nodes a DaemonSet's pods fit, and the pods for them. Pure.

Source: pkg/controller/daemon of Kubernetes 1.36.
"""

import msgspec

from actors.controllers.workloads.common.pods import GENERATION, REVISION_HASH
from actors.controllers.workloads.common.templates import pod_from, template_of
from protocols.kinds import views
from protocols.kube.meta import Object, annotations_of, fields_of, labels_of, name_of
from protocols.kube.selectors import selects
from protocols.kube.taints import NO_EXECUTE, NO_SCHEDULE, node_taints, tolerated

TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
PREFIX = "node.kubernetes.io"
TOLERATED = (
    ("not-ready", NO_EXECUTE),
    ("unreachable", NO_EXECUTE),
    ("disk-pressure", NO_SCHEDULE),
    ("memory-pressure", NO_SCHEDULE),
    ("pid-pressure", NO_SCHEDULE),
    ("unschedulable", NO_SCHEDULE),
)
"""Taints that every daemon pod tolerates."""
NETWORK = ("network-unavailable", NO_SCHEDULE)
"""Tolerated by pods that use the host's network."""
TOLERATION = ("key", "operator", "effect")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class Fit(msgspec.Struct, frozen=True):
    """Decision about a DaemonSet on one node."""

    run: bool
    """A pod has to run there."""
    stay: bool
    """A pod that runs there may go on."""


NOWHERE, OLD_ONLY, EVERYWHERE = Fit(False, False), Fit(False, True), Fit(True, True)


def tolerations(spec: Object) -> list[Object]:
    """Return the pod's tolerations with those that the controller adds.

    An added one replaces its like with `tolerationSeconds`: a daemon pod stays on a lost node.
    """
    taints = (*TOLERATED, *([NETWORK] if spec.get("hostNetwork") else []))
    added = [{"key": f"{PREFIX}/{key}", "operator": "Exists", "effect": effect} for key, effect in taints]
    own = (entry for entry in spec.get("tolerations") or () if fields_of(entry, TOLERATION) not in added)
    return [*own, *added]


def fit(node: views.Node, daemon_set: Object) -> Fit:
    """Return whether pods of the DaemonSet run on the node: by its name, labels and taints, never by its resources."""
    spec = template_of(daemon_set).get("spec") or {}
    if spec.get("nodeName") and spec["nodeName"] != name_of(node):
        return NOWHERE
    if not _selected(node, spec):
        return NOWHERE
    borne = tolerations(spec)
    open_taints = [taint for taint in node_taints(node) if not tolerated(taint, borne)]
    if any(taint.effect == NO_EXECUTE for taint in open_taints):
        return NOWHERE
    return OLD_ONLY if any(taint.effect == NO_SCHEDULE for taint in open_taints) else EVERYWHERE


def _selected(node: views.Node, spec: Object) -> bool:
    labels = labels_of(node)
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
    return required is None or selects(required, name_of(node), labels)


def daemon_pod(daemon_set: Object, node: str, revision_hash: str) -> Object:
    """Return a pod that the scheduler can bind to this node only."""
    labels = {REVISION_HASH: revision_hash}
    if generation := annotations_of(daemon_set).get(TEMPLATE_GENERATION):
        labels[GENERATION] = generation
    pod = pod_from(daemon_set, template_of(daemon_set), labels)
    spec = pod["spec"]
    spec["tolerations"] = tolerations(spec)
    spec["affinity"] = _pinned(spec.get("affinity") or {}, node)
    return pod


def _pinned(affinity: Object, node: str) -> Object:
    """Replace the required node affinity: the controller has checked it, and the node's name is stricter."""
    by_name = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [by_name]}]}
    return {**affinity, "nodeAffinity": {**(affinity.get("nodeAffinity") or {}), REQUIRED: required}}
