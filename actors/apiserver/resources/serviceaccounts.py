"""ServiceAccounts: names only; nodeplane issues no tokens for them yet."""

from actors.apiserver.cells import AGE, NAME
from actors.apiserver.objects import items
from actors.apiserver.strategy import Strategy
from actors.apiserver.types import Column, Resource

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
    returns_object=True,
)
