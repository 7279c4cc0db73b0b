"""Resolve a request's method and path to a route, cached for those that come again."""

from collections.abc import Awaitable, Callable
from urllib.parse import unquote

import msgspec
from aiohttp import web

from actors.apiserver.api.errors import ApiError
from actors.apiserver.api.request.selection import Selection, selected_name, selection
from actors.apiserver.api.request.target import Attributes, Target, parse_target
from actors.apiserver.http.connection.requests import Request
from actors.apiserver.http.connection.responses import Reply
from actors.apiserver.http.endpoints.evictions import Evicting
from actors.apiserver.http.endpoints.reading import Reading, Watching
from actors.apiserver.http.endpoints.reviews import Reviews
from actors.apiserver.http.endpoints.subresources import Scaling
from actors.apiserver.http.endpoints.token_requests import Tokens
from actors.apiserver.http.endpoints.writing import Writing
from actors.apiserver.http.nodes.connecting import Connecting
from actors.apiserver.http.nodes.usage import Usage
from actors.apiserver.http.telemetry.audit import Subject
from actors.apiserver.http.telemetry.metrics import Place, place_of
from protocols.kinds.served.row import Table

Action = Callable[[Request], Awaitable[Reply]]
CACHED_PATHS, LONGEST_PATH = 1024, 512
"""Number of cached paths, and the longest that is cached, in characters."""


class Route(msgspec.Struct):
    """All that follows from a request's method and path; shared by requests that have the same."""

    target: Target
    action: Action
    place: Place
    everything: Selection
    """The selection of requests without selectors."""
    attributes: Attributes
    """For authorization of requests without field selectors."""
    warnings: tuple[str, ...]
    """Sent with every response of the resource: that its version is deprecated."""
    subject: Subject | None = None
    """For the audit log; made when first needed."""


class Endpoints(msgspec.Struct, frozen=True):
    """All endpoints of resource requests."""

    reading: Reading
    writing: Writing
    scaling: Scaling
    evicting: Evicting
    watching: Watching
    connecting: Connecting
    reviews: Reviews
    usage: Usage
    tokens: Tokens

    def action(self, target: Target) -> Action:
        """Return the method that serves a target. Raises KeyError for a verb that its resource does not list."""
        if target.resource.virtual:
            return {"create": self.reviews.create, "get": self.usage.get, "list": self.usage.every}[target.verb]
        if target.subresource == "eviction":
            return self.evicting.create
        if target.subresource == "token":
            return self.tokens.create
        if target.subresource == "scale":
            scaling = self.scaling
            return {"get": scaling.get, "update": scaling.update, "patch": scaling.patch}[target.verb]
        reading, writing = self.reading, self.writing
        return {
            "": reading.get,  # OPTIONS to a proxy: connections do not come here
            "get": reading.get,
            "list": reading.list,
            "create": writing.create,
            "update": writing.update,
            "patch": writing.patch,
            "delete": writing.delete,
            "deletecollection": writing.deletecollection,
        }[target.verb]


class Routes:
    """Routes by method and path, cached until the table of resources changes."""

    def __init__(self, table: Table, action: Callable[[Target], Action]) -> None:
        """`action` maps a target to the operation it asks for."""
        self._table, self._rows, self._action = table, table.rows, action
        self._found: dict[tuple[str, str], Route] = {}

    def known(self, http: web.BaseRequest) -> Route | None:
        """Return a cached route. None for custom resources: their replicas may still have to be filled."""
        if self._rows is not self._table.rows:
            return None
        route = self._found.get((http.method, http.rel_url.raw_path))
        return route if route is not None and route.target.resource.custom is None else None

    def guess(self, http: web.BaseRequest) -> Route | None:
        """Return the route by the resources served now; None for a path without one."""
        try:
            return self.of(http.method, http.rel_url.raw_path)
        except ApiError:
            return None

    def of(self, method: str, path: str) -> Route | None:
        """Return the route of a raw path; None for paths that are no resource. Raises as parse_target."""
        if self._rows is not self._table.rows or len(self._found) >= CACHED_PATHS:
            self._rows, self._found = self._table.rows, {}
        route = self._found.get((method, path))
        if route is None:
            target = parse_target(self._table, method, path)
            if target is None:
                return None
            route = self._route(target, path)
            if len(path) <= LONGEST_PATH:
                self._found[method, path] = route
        return route

    def _route(self, target: Target, path: str) -> Route:
        row = target.resource
        return Route(
            target=target,
            action=self._action(target),
            place=place_of(target),
            everything=selection(row, "", ""),
            attributes=attributes_of(target, target.verb, unquote(path)),
            warnings=(row.warning,) if row.warning else (),
        )


def attributes_of(target: Target, verb: str, path: str, fields: tuple[tuple[str, str], ...] = ()) -> Attributes:
    """Return the attributes of a target; `fields` are the equality terms of a field selector."""
    row = target.resource
    itself = target.name if row.full_name == "namespaces" else ""  # a namespace lies within itself
    read = target.verb == "list"  # as upstream, the right to delete an object is none to delete a collection with it
    selected = selected_name(fields) if read else ""
    return Attributes(
        verb=verb,
        path=path,
        group=row.group,
        resource=row.plural,
        subresource=target.subresource,
        namespace=target.namespace or itself,
        name=target.name or selected,
        fields=fields,
    )
