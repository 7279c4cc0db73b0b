"""metrics.k8s.io: usage of nodes and pods, measured on request and not stored."""

from actors.apiserver.api.resource import Resource
from actors.apiserver.api.strategy import Strategy
from actors.apiserver.resources.cells import AGE, NAME

GROUP = "metrics.k8s.io"


def _row(kind: str, plural: str, namespaced: bool) -> Resource:
    return Resource(
        group=GROUP,
        version="v1beta1",
        plural=plural,
        singular="",
        kind=kind,
        namespaced=namespaced,
        strategy=Strategy(),
        columns=(NAME, AGE),
        verbs=("get", "list"),
        virtual=True,
    )


ROWS = (_row("NodeMetrics", "nodes", namespaced=False), _row("PodMetrics", "pods", namespaced=True))
