"""Parameters of policies: the objects that a binding names or selects, of the kind that its policy declares."""

from collections.abc import Callable, Iterable

from actors.apiserver.api.stored import Stored, view
from protocols.errors import NodeplaneError
from protocols.kinds.served.row import Served
from protocols.kube.meta import Object
from protocols.kube.objects import at
from protocols.kube.selectors import label_selector_from_object

MOST = 100
"""Parameters of one binding: each is evaluated on its own."""
NO_PARAMS = "no params found for policy binding with `Deny` parameterNotFoundAction"


class ParametersMissing(NodeplaneError):
    """Raised when a binding's parameters cannot be had, with the reason."""


FindRow = Callable[[str, str], Served | None]
"""Return the resource of an apiVersion and kind."""
Below = Callable[[Served, str], Iterable[Stored]]
"""Return the stored objects of a resource whose key begins with a prefix."""


class Parameters:
    """Looks up parameters in the replicas; `find` returns the resource of a kind, None if it is not served."""

    def __init__(self, find: FindRow, below: Below) -> None:
        self._find, self._below = find, below

    def of(self, kind: Object | None, reference: Object | None, namespace: str) -> list[Object | None]:
        """Return the parameters to evaluate with, one after another; None = without. Raises ParametersMissing."""
        if kind is None or reference is None:
            return [None]
        api_version, name = str(kind.get("apiVersion")), str(kind.get("kind"))
        row = self._find(api_version, name)
        if row is None:
            raise ParametersMissing(f"failed to find resource referenced by paramKind: '{api_version}, Kind={name}'")
        parameters: list[Object | None] = list(self._found(row, reference, _namespace(row, reference, namespace)))
        if parameters:
            return parameters
        if reference.get("parameterNotFoundAction") == "Deny":
            raise ParametersMissing(NO_PARAMS)
        return []

    def _found(self, row: Served, reference: Object, namespace: str) -> Iterable[Object]:
        name = reference.get("name")
        prefix = row.key(namespace, str(name or ""))
        if name:
            shown = [view(row, stored).obj for stored in self._below(row, prefix) if stored.key == prefix]
        else:
            selector = label_selector_from_object(reference.get("selector") or {})
            shown = [view(row, stored).obj for stored in self._below(row, prefix) if selector.matches(stored.labels)]
        if len(shown) > MOST:
            raise ParametersMissing(f"the binding selects {len(shown)} parameters: at most {MOST} are allowed")
        return shown


def _namespace(row: Served, reference: Object, namespace: str) -> str:
    wanted = str(at(reference, "namespace") or "")
    if not row.namespaced:
        if wanted:
            raise ParametersMissing("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        return ""
    if not wanted and not namespace:
        raise ParametersMissing(
            "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
        )
    return wanted or namespace
