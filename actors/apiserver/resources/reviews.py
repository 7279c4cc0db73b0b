"""Token and access reviews: POST answers, nothing is stored."""

from actors.apiserver.api.resource import Resource
from actors.apiserver.api.strategy import Strategy
from actors.apiserver.resources.cells import AGE, NAME

AUTHENTICATION, AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"


def _row(group: str, kind: str, namespaced: bool = False) -> Resource:
    return Resource(
        group=group,
        version="v1",
        plural=f"{kind.lower()}s",
        singular=kind.lower(),
        kind=kind,
        namespaced=namespaced,
        strategy=Strategy(),
        columns=(NAME, AGE),
        verbs=("create",),
        virtual=True,
    )


ROWS = (
    _row(AUTHENTICATION, "TokenReview"),
    _row(AUTHENTICATION, "SelfSubjectReview"),
    _row(AUTHORIZATION, "SubjectAccessReview"),
    _row(AUTHORIZATION, "SelfSubjectAccessReview"),
    _row(AUTHORIZATION, "SelfSubjectRulesReview"),
    _row(AUTHORIZATION, "LocalSubjectAccessReview", namespaced=True),
)
