"""The scale subresource of workloads and custom resources."""

from collections.abc import Callable

from actors.apiserver.api.encoding.decode import decode_json, media_type
from actors.apiserver.api.encoding.render import render_object
from actors.apiserver.api.errors import BadRequest, InternalError, invalid_object
from actors.apiserver.api.request.query import WriteOptions
from actors.apiserver.api.request.target import Target
from actors.apiserver.api.stored import view
from actors.apiserver.http.connection.requests import Request, read_body, read_object
from actors.apiserver.http.connection.responses import Reply
from actors.apiserver.http.endpoints.scales import (
    KIND,
    VERSION,
    missing_replicas,
    owners_of_scaled,
    scale_of,
    with_replicas,
    with_scale_owners,
)
from actors.apiserver.http.endpoints.writing import Writing
from actors.apiserver.reads.reader import Reader
from actors.apiserver.writes.change import Mutation
from actors.apiserver.writes.metadata import check_kind, check_metadata
from actors.apiserver.writes.owners import apply, updaters
from actors.apiserver.writes.ownership.entries import Entries
from actors.apiserver.writes.patch import applied_configuration, check_media, check_version, patcher
from actors.apiserver.writes.update import unnamed, updated
from actors.apiserver.writes.validation import APPLY_PATCH, Review, body_kind
from protocols.kinds.check.causes import invalid
from protocols.kinds.served import columns as cells
from protocols.kinds.served.row import Column, Served
from protocols.kinds.served.strategy import Strategy
from protocols.kube.meta import Object
from protocols.kube.objects import at, fresh_copy

SCALES = Served(
    group="autoscaling",
    version="v1",
    plural="scales",
    kind=KIND,
    namespaced=True,
    strategy=Strategy(),
    columns=(
        Column("Name", cells.name),
        Column("Desired", lambda scale: at(scale, "spec", "replicas") or 0, type="integer"),
        Column("Available", lambda scale: at(scale, "status", "replicas") or 0, type="integer"),
        Column("Age", cells.age),
    ),
)
"""The row of a Scale, for its columns."""


class Scaling:
    """GET, PUT and PATCH of scale: a write of replicas through the ordinary write path."""

    def __init__(self, reader: Reader, writing: Writing) -> None:
        self._reader = reader
        self._writing = writing

    async def get(self, request: Request) -> Reply:
        target = request.target
        obj = view(target.resource, await self._reader.get(target, None)).obj
        if path := missing_replicas(target, obj):
            raise InternalError(f'the spec replicas field "{path}" does not exist')
        return _scale_reply(request, obj)

    async def update(self, request: Request) -> Reply:
        body = await read_object(request.http, KIND)
        options = request.write_options("UpdateOptions")

        def change(scale: Object) -> Object:
            wanted = fresh_copy(body)
            check_kind(wanted, KIND, VERSION)
            if not check_metadata(wanted).get("name"):
                raise unnamed(request.target)
            return wanted

        return await self._write(request, change, options, patching=False)

    async def patch(self, request: Request) -> Reply:
        media, raw = media_type(request.http.headers.get("Content-Type", "")), await read_body(request.http)
        options = request.write_options("PatchOptions")
        if media == APPLY_PATCH:
            return await self._apply(request, raw, options)
        check_media(request.target, media)
        return await self._write(request, patcher(request.target, media, decode_json(raw)), options, patching=True)

    async def _write(
        self, request: Request, change: Callable[[Object], Object], options: WriteOptions, *, patching: bool
    ) -> Reply:
        target = request.target
        review, owners = Review(options.validation), updaters(target, options)

        def mutate(old: Object) -> Object | None:
            scale = scale_of(target, old)
            wanted = change(scale)
            check_kind(wanted, KIND, VERSION)
            path = missing_replicas(target, old) if patching else ""
            if path and at(wanted, "spec", "replicas") is None:
                raise BadRequest(f'the spec replicas field "{path}" cannot be empty')
            review.body(wanted, body_kind(target.resource, target.subresource))
            new = {**scale, "spec": wanted.get("spec") or {}}
            entries = owners(new, with_scale_owners(target, scale, old), None)
            return _scaled(target, old, wanted, entries, patching=patching)

        return await self._change(request, mutate, options)

    async def _apply(self, request: Request, raw: bytes, options: WriteOptions) -> Reply:
        target = request.target
        config = applied_configuration(target, raw, options, Review(options.validation))

        def mutate(old: Object) -> Object | None:
            check_version(target, config, old)
            result = apply(target, config, options, with_scale_owners(target, scale_of(target, old), old))
            scale = {**result.obj, "metadata": check_metadata(fresh_copy(config))}
            return _scaled(target, old, scale, result.entries, patching=True)

        return await self._change(request, mutate, options)

    async def _change(self, request: Request, mutate: Mutation, options: WriteOptions) -> Reply:
        outcome = await self._writing.change(request, mutate, options)
        return _scale_reply(request, view(request.target.resource, outcome.stored).obj)


def main_resource(target: Target) -> Target:
    """Return the target without its subresource: a change of replicas is an update of the object's spec."""
    return Target(target.resource, target.verb, target.namespace, target.name)


def _scaled(target: Target, old: Object, scale: Object, changed: Entries, *, patching: bool) -> Object:
    """Return the object as a Scale wants it. `changed` are the managedFields of the Scale.

    Raises BadRequest, Conflict, Invalid.
    """
    metadata = check_metadata(scale)
    if metadata.get("name") not in (None, "", target.name):
        text = f"the name of the object ({metadata['name']}) does not match the name on the URL ({target.name})"
        raise BadRequest(text)
    if metadata.get("namespace") not in (None, "", target.namespace):
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    new = with_replicas(target, old, _replicas(target, scale))
    named = {field: metadata[field] for field in ("uid", "resourceVersion") if metadata.get(field)}
    new["metadata"] = {**new["metadata"], **named}
    entries = owners_of_scaled(target, old, changed)
    return updated(main_resource(target), new, old, patching=patching, owners=lambda new, old, sent: entries)


def _replicas(target: Target, scale: Object) -> int:
    replicas = at(scale, "spec", "replicas")
    replicas = 0 if replicas is None else replicas
    valid = isinstance(replicas, int) and not isinstance(replicas, bool)
    if not valid or (replicas < 0 and not target.resource.custom):  # a custom kind has rules of its own for its path
        cause = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid_object("Scale", "autoscaling", target.name, [cause])
    return replicas


def _scale_reply(request: Request, obj: Object) -> Reply:
    body = render_object(SCALES, scale_of(request.target, obj), request.form)
    return Reply(body, media_type=request.form.media_type)
