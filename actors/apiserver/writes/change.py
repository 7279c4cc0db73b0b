"""One write on its way from its request to the store: the value that the steps of `path/steps.py` pass on."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from actors.apiserver.api.errors import Forbidden
from actors.apiserver.api.request.query import WriteOptions
from actors.apiserver.api.request.target import Attributes, Target
from actors.apiserver.api.request.user import User
from actors.apiserver.authorization.authorizer import attributes_details, full_name
from protocols.kube.meta import Object
from protocols.kube.objects import at

CREATE, UPDATE, DELETE, CONNECT = "CREATE", "UPDATE", "DELETE", "CONNECT"
"""Upstream's admission operations."""
_OPERATIONS = {"create": CREATE, "delete": DELETE, "deletecollection": DELETE}
DEFAULTS = WriteOptions()
Mutation = Callable[[Object], Object | None]
"""Change a private copy of the stored object and return the new one; None removes it. Raises StatusError.

An object that is being deleted is removed, too, when nothing holds it any longer. It may be called several times, and
in a thread.
"""


class Change(msgspec.Struct):
    """A write of one object. Steps replace `new`; nothing changes `old`."""

    target: Target
    author: User
    options: WriteOptions = DEFAULTS
    operation: str = ""
    """Upstream's; by default that of the verb. A PUT or an apply that finds nothing is a CREATE."""
    size: int = 0
    """Bytes of the request's body."""
    old: Object | None = None
    """The stored object in the version of the request; None if there is none."""
    new: Object | None = None
    """The object to store; None if it is removed as it is. Before its decision, the body of a subresource."""
    held: Mapping[bytes, int] = {}
    """Keys of the store that must stand at a revision when the object is stored."""
    charged: tuple[Object | None, Object] | None = None
    """The object before and after the write for which quotas were charged last; None before the first charge."""
    session: Any = None
    """The Session of policies and webhooks of users that may concern the write; None if there are none."""

    def __post_init__(self) -> None:
        self.operation = self.operation or _OPERATIONS.get(self.target.verb, UPDATE)

    @property
    def sent(self) -> Object:
        """The object as its author wants it; empty for a deletion and for a subresource that is created."""
        wants = self.old is None or self.operation == UPDATE
        return self.new if wants and self.new is not None else {}

    @property
    def namespace(self) -> str:
        """The namespace as policies and webhooks see it: of a Namespace, its own name."""
        target = self.target
        return target.name if target.resource.full_name == "namespaces" else target.namespace

    @property
    def attributes(self) -> Attributes:
        """The write as authorization rules see it."""
        target, row = self.target, self.target.resource
        verb = "update" if self.operation == UPDATE else "create" if self.old is None else target.verb
        name = target.name or str(at(self.new or self.old or {}, "metadata", "name") or "")
        return Attributes(verb, "", row.group, row.plural, target.subresource, target.namespace, name)

    @property
    def warnings(self) -> Sequence[str]:
        """Warnings of policies and webhooks, complete once the write is admitted."""
        warnings: Sequence[str] = () if self.session is None else self.session.warnings
        return warnings

    def reject(self, fault: str) -> None:
        """Raise Forbidden if there is a fault."""
        if fault:
            wanted = self.attributes
            raise Forbidden(f'{full_name(wanted)} "{wanted.name}" is forbidden: {fault}', attributes_details(wanted))
