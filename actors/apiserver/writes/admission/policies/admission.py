"""Begin the admission of writes by policies and webhooks: find what may match, and what it needs.

What evaluates and calls them is imported with the first write that one of them is about.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from actors.apiserver.api.request.query import WriteOptions
from actors.apiserver.api.request.target import Target
from actors.apiserver.api.request.user import User
from actors.apiserver.api.stored import Stored
from actors.apiserver.authorization.authorizer import Authorizer
from actors.apiserver.writes.admission.policies.index import CREATE, DELETE, UPDATE, PolicyIndex
from protocols.kinds.served.row import Served
from protocols.kube.meta import Object

if TYPE_CHECKING:
    from actors.apiserver.writes.admission.policies.session import Parts, Session

OPTIONS = {CREATE: "CreateOptions", UPDATE: "UpdateOptions", DELETE: "DeleteOptions"}


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
    def __init__(self, index: PolicyIndex, options: PolicyOptions) -> None:
        self._index, self._options = index, options
        self._parts: Parts | None = None

    async def review(
        self, user: User, target: Target, operation: str, obj: Object, dry_run: bool = False
    ) -> Sequence[str]:
        """Check what is not stored: the body of a subresource, the options of a connection. Return warnings.

        Nothing changes it. Raises StatusError.
        """
        session = await self.begin(user, target, operation, dry_run=dry_run)
        if session is None:
            return ()
        await session.validated(obj)
        return session.warnings

    async def begin(
        self, user: User, target: Target, operation: str, options: WriteOptions | None = None, dry_run: bool = False
    ) -> "Session | None":
        """Return the session of a write; None if no policy and no webhook is about writes of its kind."""
        hooks = await self._index.hooks(target.resource, target.subresource, operation)
        if hooks is None:
            return None
        from actors.apiserver.writes.admission.policies.matching import Write
        from actors.apiserver.writes.admission.policies.session import Session

        row = target.resource
        write = Write(
            operation=operation,
            row=row,
            namespace=target.name if row.full_name == "namespaces" else target.namespace,
            name=target.name,
            user=user,
            subresource=target.subresource,
            dry_run=dry_run or (options is not None and options.dry_run),
            options=_options(operation, target, options),
        )
        space = await self._options.namespace(target.namespace) if row.namespaced and target.namespace else None
        return Session(write, target, hooks, self._made_parts(), space)

    async def close(self) -> None:
        if self._parts is not None:
            await self._parts.caller.close()

    def _made_parts(self) -> "Parts":
        if self._parts is None:
            from actors.apiserver.writes.admission.policies.calling import Caller
            from actors.apiserver.writes.admission.policies.parameters import Parameters
            from actors.apiserver.writes.admission.policies.session import Parts

            given = self._options
            caller = Caller(given.service, given.slices)
            self._parts = Parts(given.authorizer, Parameters(given.find, given.below), caller)
        return self._parts


def _options(operation: str, target: Target, options: WriteOptions | None) -> Object:
    kind = "PatchOptions" if target.verb == "patch" and operation == UPDATE else OPTIONS.get(operation, "")
    if not kind:
        return {}
    shown: Object = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    if options is not None and options.manager:
        shown["fieldManager"] = options.manager
    if options is not None and options.dry_run:
        shown["dryRun"] = ["All"]
    return shown
