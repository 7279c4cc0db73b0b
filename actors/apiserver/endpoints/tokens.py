"""POST serviceaccounts/NAME/token: a signed token that ends with its time, its account or what it is bound to."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from actors.apiserver.answers.render import dump
from actors.apiserver.authentication.tokens.authority import TokenAuthority
from actors.apiserver.authentication.tokens.claims import BOUND, RESOURCES, Grant
from actors.apiserver.authentication.tokens.keys import NoSigningKey
from actors.apiserver.authentication.tokens.request import GROUP, Asked, read_request
from actors.apiserver.authorization.node_rules import node_of
from actors.apiserver.catalog.table import TABLE
from actors.apiserver.endpoints.types import Reply, Request
from actors.apiserver.errors.answers import BadRequest, Conflict, Forbidden, ServiceUnavailable
from actors.apiserver.objects.clock import now
from actors.apiserver.objects.paths import Obj, text
from actors.apiserver.request.body import read_object
from actors.apiserver.request.query import write_options
from actors.apiserver.writes.faults import details, not_found
from actors.apiserver.writes.metadata import check_kind, check_metadata

Stored = Callable[[str, str, str], Awaitable[Obj | None]]


class Tokens:
    def __init__(self, authority: TokenAuthority, stored: Stored) -> None:
        """`stored` reads (resource, namespace, name) from the store: a token must not outlive what is gone."""
        self._authority, self._stored = authority, stored

    async def create(self, request: Request) -> Reply:
        """Raises NotFound, BadRequest, Invalid, Conflict, Forbidden."""
        write_options(request.query, request.dry_runs, "")
        body = await read_object(request.http, "TokenRequest")
        check_kind(body, "TokenRequest", f"{GROUP}/v1")
        metadata = check_metadata(body)
        target = request.target
        if metadata.get("name") not in (None, "", target.name):
            raise BadRequest(
                f"the name of the object ({metadata['name']}) does not match the name on the URL ({target.name})"
            )
        metadata.update(name=target.name, namespace=target.namespace, creationTimestamp=now())
        token, ends = await self._issue(await self._grant(request, read_request(body)))
        stamp = datetime.fromtimestamp(ends, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body["status"] = {"token": token, "expirationTimestamp": stamp}
        return Reply(dump(body, request.form), 201, request.form.media_type)

    async def _issue(self, grant: Grant) -> tuple[str, float]:
        try:
            return await self._authority.issue(grant)
        except NoSigningKey as error:
            raise ServiceUnavailable(str(error)) from None

    async def _grant(self, request: Request, asked: Asked) -> Grant:
        target = request.target
        account = await self._stored("serviceaccounts", target.namespace, target.name)
        if account is None:
            raise not_found(target.resource, target.name)
        bound = await self._bound(target.namespace, asked) if asked.kind else None
        _check_pod(target.name, asked, bound)
        _check_node(request, asked, bound)
        name = text(bound, "spec", "nodeName") if asked.kind == "Pod" else ""
        node = await self._stored("nodes", "", name) if name else None
        return Grant(account, asked.audiences, asked.seconds, asked.kind, bound, node)

    async def _bound(self, namespace: str, asked: Asked) -> Obj:
        """The object to bind to. Raises NotFound, Conflict."""
        row = TABLE.of(RESOURCES[BOUND[asked.kind]])
        found = await self._stored(row.plural, namespace if row.namespaced else "", asked.name)
        if found is None:
            raise not_found(row, asked.name)
        uid = text(found, "metadata", "uid")
        if asked.uid and asked.uid != uid:
            told = (
                f"the UID in the bound object reference ({asked.uid}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
            message = f'Operation cannot be fulfilled on {row.full_name} "{asked.name}": {told}'
            raise Conflict(message, details(row, asked.name))
        return found


def _check_pod(account: str, asked: Asked, bound: Obj | None) -> None:
    if asked.kind == "Pod" and text(bound, "spec", "serviceAccountName") != account:
        raise BadRequest(
            f'cannot bind token for serviceaccount "{account}" to pod running with different serviceaccount name.'
        )


def _check_node(request: Request, asked: Asked, bound: Obj | None) -> None:
    """A node gets tokens of pods that run on it, and of no other pod that comes to bear the same name."""
    node = node_of(request.user)
    if not node:
        return
    fault = ""
    if asked.kind != "Pod":
        fault = "node requested token not bound to a pod"
    elif not asked.uid:
        fault = "node requested token with a pod binding without a uid"
    elif text(bound, "spec", "nodeName") != node:
        fault = "node requested token bound to a pod scheduled on a different node"
    if fault:
        row, name = request.target.resource, request.target.name
        raise Forbidden(f'{row.full_name} "{name}" is forbidden: {fault}', details(row, name))
