"""Begin the admission of writes by policies and webhooks: find what may match, and what it needs.

What evaluates and calls them is imported with the first write that one of them is about.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from actors.apiserver.api.stored import Stored
from actors.apiserver.authorization.authorizer import Authorizer
from actors.apiserver.writes.admission.policies.index import PolicyIndex
from actors.apiserver.writes.change import Change
from protocols.kinds.served.row import Served
from protocols.kube.meta import Object

if TYPE_CHECKING:
    from actors.apiserver.writes.admission.policies.session import Parts, Session


class PolicyOptions(msgspec.Struct, frozen=True):
    """Access to what policies and webhooks read."""

    authorizer: Authorizer
    namespace: Callable[[str], Awaitable[Object | None]]
    find: Callable[[str, str], Served | None]
    """Return the resource of an apiVersion and kind, for parameters."""
    below: Callable[[Served, str], Iterable[Stored]]
    """Return the stored objects of a resource whose key begins with a prefix."""
    service: Callable[[str], Object | None]
    slices: Callable[[str], Iterable[Object]]
    """Return the EndpointSlices of a namespace."""


class PolicyAdmission:
    """Policies and webhooks of this process."""

    def __init__(self, index: PolicyIndex, options: PolicyOptions) -> None:
        self._index, self._options = index, options
        self._parts: Parts | None = None

    async def begin(self, change: Change) -> "Session | None":
        """Return the session of a write; None if no policy and no webhook is about writes of its kind."""
        target, row = change.target, change.target.resource
        hooks = await self._index.hooks(row, target.subresource, change.operation)
        if hooks is None:
            return None
        from actors.apiserver.writes.admission.policies.calling import Caller
        from actors.apiserver.writes.admission.policies.parameters import Parameters
        from actors.apiserver.writes.admission.policies.session import Parts, Session

        given = self._options
        if self._parts is None:
            caller = Caller(given.service, given.slices)
            self._parts = Parts(given.authorizer, Parameters(given.find, given.below), caller)
        space = await given.namespace(target.namespace) if row.namespaced and target.namespace else None
        return Session(change, hooks, self._parts, space)

    async def close(self) -> None:
        if self._parts is not None:
            await self._parts.caller.close()
