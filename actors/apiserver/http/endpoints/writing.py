"""POST, PUT, PATCH, DELETE: from the request's body to the stored object."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from aiohttp import hdrs
from msgspec.structs import replace

from actors.apiserver.api.encoding.decode import decode_object, media_type
from actors.apiserver.api.encoding.negotiate import PLAIN
from actors.apiserver.api.encoding.render import dump, render_list, render_object, render_stored
from actors.apiserver.api.errors import AlreadyExists, NotFound, StoreReadError, invalid_options
from actors.apiserver.api.request.query import WriteOptions
from actors.apiserver.api.request.target import Attributes, Target, conflict, forbidden, not_found
from actors.apiserver.api.request.traces import Sender, record_written
from actors.apiserver.api.request.workers import offload
from actors.apiserver.api.stored import Stored, corruption, view
from actors.apiserver.http.connection.requests import Request, offload_decoding, read_body, read_object
from actors.apiserver.http.connection.responses import Reply
from actors.apiserver.http.telemetry.audit import ANNOTATIONS, CREATED
from actors.apiserver.reads.reader import Reader
from actors.apiserver.storage.storage import RevisionConflict
from actors.apiserver.writes.change import CREATE, Change, Mutation
from actors.apiserver.writes.delete import IGNORE, DeleteOptions, delete_options, deleted
from actors.apiserver.writes.metadata import duplicate_owners
from actors.apiserver.writes.owners import Owners, updaters
from actors.apiserver.writes.patch import (
    applied_configuration,
    applied_from_nothing,
    apply_mutation,
    patch_mutation,
)
from actors.apiserver.writes.path.binding import bind
from actors.apiserver.writes.path.steps import WritePath, Written
from actors.apiserver.writes.update import check_binding, recreated, replace_mutation
from actors.apiserver.writes.validation import APPLY_PATCH, Review, body_kind
from protocols.kinds.check.causes import invalid
from protocols.kube.meta import Object
from protocols.kube.objects import fresh_copy, text

log = logging.getLogger("apiserver")
MOST_CORRUPT = 10
"""Keys named in one error."""
CREATIONS = 3
"""Attempts to create an object that is missing each time it is to be changed, and there when it is to be created."""


class Writing:
    """POST, PUT, PATCH and DELETE of objects and of their status."""

    def __init__(self, path: WritePath, reader: Reader) -> None:
        self._path, self._reader = path, reader

    async def create(self, request: Request) -> Reply:
        options, target = request.write_options("CreateOptions"), request.target
        with Review(options.validation) as review:
            body, size = await _body(request, review)
            if target.subresource == "binding":
                reply = await self._bind(request, body, options)
            else:
                reply = await self._create(request, body, options, updaters(target, options), size)
            return _warned(reply, review.warnings)

    async def update(self, request: Request) -> Reply:
        options, target = request.write_options("UpdateOptions"), request.target
        with Review(options.validation) as review:
            (body, size), owners = await _body(request, review), updaters(target, options)
            mutation = replace_mutation(target, body, owners)
            if target.resource.create_on_update and not target.subresource:
                reply = await self._changed_or_created(
                    request, mutation, lambda: (recreated(target, body), owners), options, size
                )
            else:
                reply = await self._changed(request, mutation, options, size)
            return _warned(reply, review.warnings)

    async def patch(self, request: Request) -> Reply:
        options, target = request.write_options("PatchOptions"), request.target
        media, raw = media_type(request.http.headers.get("Content-Type", "")), await read_body(request.http)
        with Review(options.validation) as review:
            if media == APPLY_PATCH:
                wanted = await offload_decoding(raw, media, lambda: applied_configuration(target, raw, options, review))
                reply = await self._apply(request, wanted, options, len(raw))
            else:
                mutation = await offload(len(raw), lambda: patch_mutation(target, media, raw, options, review))
                reply = await self._changed(request, mutation, options, len(raw))
            return _warned(reply, review.warnings)

    async def _apply(self, request: Request, wanted: Object, options: WriteOptions, size: int) -> Reply:
        target = request.target
        mutation = apply_mutation(target, wanted, options)
        if target.subresource:
            return await self._changed(request, mutation, options, size)

        def made() -> tuple[Object, Owners]:
            body = fresh_copy(wanted)
            return body, applied_from_nothing(target, body, options)

        return await self._changed_or_created(request, mutation, made, options, size)

    async def _changed_or_created(
        self,
        request: Request,
        mutation: Mutation,
        made: Callable[[], tuple[Object, Owners]],
        options: WriteOptions,
        size: int,
    ) -> Reply:
        """Change the object, or create what `made` returns. Of two requests at once, the second changes the first's."""
        for _ in range(CREATIONS):
            try:
                return await self._changed(request, mutation, options, size)
            except NotFound:
                body, owners = await offload(size, made)
            with suppress(AlreadyExists):
                return await self._create(request, body, options, owners, size)
        return await self._changed(request, mutation, options, size)

    async def delete(self, request: Request) -> Reply:
        options = await _delete_options(request)
        if options.ignore_read_error:
            return await self._delete_corrupt(request)
        outcome = await self._delete(request, request.target, options)
        accepted, unasked = not outcome.removed and options.cascades, request.target.resource.strategy.unasked_warning
        warnings = [*([unasked] if unasked and not options.policy else []), *outcome.warnings]
        if request.target.resource.returns_object or not outcome.removed:
            return await _written(request, Written(outcome.stored, warnings=warnings), 202 if accepted else 200)
        body = dump(_removed(request.target, outcome.stored.obj["metadata"].get("uid", "")), request.form)
        return Reply(body, media_type=request.form.media_type, warnings=warnings)

    async def deletecollection(self, request: Request) -> Reply:
        """Delete object by object, not in one transaction. The answer lists the objects as they were."""
        options = await _delete_options(request)
        if options.ignore_read_error:
            detail = "is not allowed with DELETECOLLECTION, try again after removing the option"
            raise invalid_options("DeleteOptions", invalid(IGNORE, True, detail))
        listing = await self._reader.list(request.target, request.options, request.wanted)
        # Encoded first: a form that they are too large for must be rejected before they are deleted.
        row, size = request.target.resource, sum([len(stored.raw) for stored in listing.objects])
        metadata = listing.metadata()
        body = await offload(size, lambda: render_list(row, listing.objects, request.form, metadata))
        for stored in listing.objects:
            named = Target(row, "delete", stored.namespace, stored.name)
            with suppress(NotFound):
                await self._delete(request, named, options)
        if listing.corrupt:
            keys = ", ".join(listing.corrupt[:MOST_CORRUPT])
            raise StoreReadError(f"{len(listing.corrupt)} of {row.full_name} cannot be read, so are left: {keys}")
        return Reply(b"".join(body), media_type=request.form.media_type)

    async def _delete_corrupt(self, request: Request) -> Reply:
        """Delete an unreadable object, without regard to finalizers. Raises Forbidden, NotFound, Invalid."""
        target = request.target
        row = target.resource
        verb = "unsafe-delete-ignore-read-errors"
        right = Attributes(verb, "", row.group, row.plural, "", target.namespace, target.name)
        if not self._path.admission.given.authorizer.allows(request.user, right):
            raise forbidden(row, target.name, f'not permitted to do "{verb}", reason: no rule allows it')
        stored = await self._path.storage.get_bytes(row, target.key)
        if stored is None:
            raise not_found(row, target.name)
        if not corruption(stored.raw, row.custom is not None):
            detail = "is exclusively used to delete corrupt object(s), try again by removing this option"
            raise invalid_options("DeleteOptions", invalid(IGNORE, True, detail))
        try:
            await self._path.storage.delete(row, stored)
        except RevisionConflict:
            raise conflict(row, target.name) from None
        log.warning("unreadable object deleted key=%s%s user=%s", row.storage_prefix, target.key, request.user.name)
        return Reply(dump(_removed(target), request.form), media_type=request.form.media_type)

    async def _delete(self, request: Request, target: Target, options: DeleteOptions) -> Written:
        change = Change(target, request.user, WriteOptions(dry_run=options.dry_run, deletion=options.shown))
        return _noted(request, change, await self._path.change(change, partial(deleted, target, options)))

    async def _create(self, request: Request, body: Object, options: WriteOptions, owners: Owners, size: int) -> Reply:
        change = Change(request.target, request.user, options, CREATE, size, new=body)
        request.http[CREATED] = text(body, "metadata", "name")
        written = await self._path.create(change, owners)
        request.http[CREATED] = written.stored.name
        return await _written(request, _noted(request, change, written), 201)

    async def _changed(self, request: Request, mutation: Mutation, options: WriteOptions, size: int) -> Reply:
        return await _written(request, await self.change(request, mutation, options, size))

    async def change(self, request: Request, mutation: Mutation, options: WriteOptions, size: int = 0) -> Written:
        """Change the object of a request with a body of `size` bytes. Raises NotFound, Conflict, Forbidden."""
        change = Change(request.target, request.user, options, size=size)
        return _noted(request, change, await self._path.change(change, mutation))

    async def _bind(self, request: Request, binding: Object, options: WriteOptions) -> Reply:
        target = request.target
        check_binding(target, binding)
        reviewed = Change(target, request.user, options, new=binding)
        warnings = await self._path.admission.review(reviewed)
        outcome = await bind(self._path, Change(target, request.user, options), binding)
        record_written(target, outcome.stored, request.began, _sender(request))
        _noted(request, reviewed, outcome)
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
        return Reply(dump(status, request.form), 201, request.form.media_type, warnings=warnings)


def _noted(request: Request, change: Change, written: Written) -> Written:
    """Put the annotations of policies and webhooks on the request's line in the audit log."""
    if change.session is not None and (annotations := change.session.annotations):
        request.http[ANNOTATIONS] = annotations
    return written


async def _body(request: Request, review: Review) -> tuple[Object, int]:
    """Return the object of the body, without fields its kind does not have, and the size of the body in bytes."""
    raw, media = await read_body(request.http), media_type(request.http.headers.get(hdrs.CONTENT_TYPE, ""))
    return await offload_decoding(raw, media, lambda: _decode_body(raw, media, request.target, review)), len(raw)


def _decode_body(raw: bytes, media: str, target: Target, review: Review) -> Object:
    sent = body_kind(target.resource, target.subresource)
    body = decode_object(raw, media, sent.kind)
    review.text(raw, media, body)
    review.body(body, sent)
    review.duplicates = duplicate_owners(body)
    return body


def _warned(reply: Reply, warnings: Sequence[str]) -> Reply:
    """Report these warnings first."""
    return replace(reply, warnings=[*warnings, *reply.warnings]) if warnings else reply


def _sender(request: Request) -> Sender:
    return Sender.of(request.user.name, request.http.headers.get("User-Agent", ""))


async def _delete_options(request: Request) -> DeleteOptions:
    return delete_options(await read_object(request.http, "DeleteOptions", empty=True), request.query, request.dry_runs)


async def _written(request: Request, written: Written, status: int = 200) -> Reply:
    stored = written.stored
    record_written(request.target, stored, request.began, _sender(request), written.fields)
    if request.form == PLAIN and stored.rv:
        body = _rendered(request, stored)
    else:
        body = await offload(len(stored.raw), lambda: _rendered(request, stored))
    return Reply(body, status, request.form.media_type, warnings=written.warnings)


def _rendered(request: Request, stored: Stored) -> bytes:
    """A dry run's new object has no revision yet."""
    if stored.rv:
        return render_stored(request.target.resource, stored, request.form)
    obj = view(request.target.resource, stored).obj
    bare = {**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k != "resourceVersion"}}
    return render_object(request.target.resource, bare, request.form) if request.form != PLAIN else dump(bare)


def _removed(target: Target, uid: str = "") -> Object:
    details = {"name": target.name, "group": target.resource.group, "kind": target.resource.plural, "uid": uid}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }
