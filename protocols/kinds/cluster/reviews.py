"""Resources without stored objects: token and access reviews, and the usage of nodes and pods (metrics.k8s.io)."""

from protocols.kinds.served.columns import AGE, NAME
from protocols.kinds.served.row import Served
from protocols.kinds.served.strategy import Strategy

AUTHENTICATION, AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"


def _review(group: str, kind: str, namespaced: bool = False) -> Served:
    return Served(
        group=group,
        version="v1",
        plural=f"{kind.lower()}s",
        kind=kind,
        namespaced=namespaced,
        strategy=Strategy(),
        columns=(NAME, AGE),
        verbs=("create",),
        virtual=True,
    )


REVIEWS = (
    _review(AUTHENTICATION, "TokenReview"),
    _review(AUTHENTICATION, "SelfSubjectReview"),
    _review(AUTHORIZATION, "SubjectAccessReview"),
    _review(AUTHORIZATION, "SelfSubjectAccessReview"),
    _review(AUTHORIZATION, "SelfSubjectRulesReview"),
    _review(AUTHORIZATION, "LocalSubjectAccessReview", namespaced=True),
)


METRICS = "metrics.k8s.io"


def _usage(kind: str, plural: str, namespaced: bool) -> Served:
    return Served(
        group=METRICS,
        version="v1beta1",
        plural=plural,
        singular_name="",
        kind=kind,
        namespaced=namespaced,
        strategy=Strategy(),
        columns=(NAME, AGE),
        verbs=("get", "list"),
        virtual=True,
    )


USAGE = (_usage("NodeMetrics", "nodes", namespaced=False), _usage("PodMetrics", "pods", namespaced=True))
