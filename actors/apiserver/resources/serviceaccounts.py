"""ServiceAccounts: identities of pods. Tokens are issued through a subresource and not stored."""

from actors.apiserver.api.objects import items
from actors.apiserver.api.resource import Column, Resource, Subresource
from actors.apiserver.api.strategy import Strategy
from actors.apiserver.resources.cells import AGE, NAME

SERVICEACCOUNTS = Resource(
    group="",
    version="v1",
    plural="serviceaccounts",
    singular="serviceaccount",
    kind="ServiceAccount",
    namespaced=True,
    strategy=Strategy(),
    short_names=("sa",),
    columns=(NAME, Column("Secrets", lambda obj: len(items(obj, "secrets"))), AGE),
    subresources=(Subresource("token", ("create",), "TokenRequest", "authentication.k8s.io", "v1"),),
    returns_object=True,
)
