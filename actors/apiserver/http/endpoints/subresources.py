"""The scale subresource of workloads and custom resources."""

from collections.abc import Callable
from typing import Any

from actors.apiserver.api.causes import invalid, invalid_object
from actors.apiserver.api.encoding.decode import decode_json, media_type
from actors.apiserver.api.encoding.render import dump
from actors.apiserver.api.errors import BadRequest
from actors.apiserver.api.objects import at
from actors.apiserver.api.request.query import write_options
from actors.apiserver.api.request.target import Target
from actors.apiserver.api.stored import fresh_copy
from actors.apiserver.custom.printing.columns import format_value
from actors.apiserver.custom.serving.strategy import value_at
from actors.apiserver.http.connection.requests import Request, read_body, read_object
from actors.apiserver.http.connection.responses import Reply
from actors.apiserver.http.endpoints.writing import Writing
from actors.apiserver.reads.reader import Reader
from actors.apiserver.writes.metadata import check_kind, check_metadata
from actors.apiserver.writes.owners import updaters
from actors.apiserver.writes.patch import check_media, patcher
from actors.apiserver.writes.update import updated
from actors.apiserver.writes.validation import Review, body_kind
from protocols.kube.meta import Object
from protocols.kube.selectors import selector_text

IDENTITY = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class Scaling:
    def __init__(self, reader: Reader, writing: Writing) -> None:
        self._reader = reader
        self._writing = writing

    async def get(self, request: Request) -> Reply:
        stored = await self._reader.get(request.target, None)
        return _scale_reply(request, request.target.resource.converter.view(stored).obj)

    async def update(self, request: Request) -> Reply:
        wanted = await read_object(request.http, "Scale")
        return await self._write(request, lambda scale: fresh_copy(wanted), "UpdateOptions")

    async def patch(self, request: Request) -> Reply:
        media, raw = media_type(request.http.headers.get("Content-Type", "")), await read_body(request.http)
        check_media(request.target, media)
        change = patcher(request.target, media, decode_json(raw))
        return await self._write(request, change, "PatchOptions")

    async def _write(self, request: Request, change: Callable[[Object], Object], kind: str) -> Reply:
        target = request.target
        options = write_options(request.query, request.dry_runs, request.http.headers.get("User-Agent", ""), kind)
        review, owners = Review(options.validation), updaters(target, options)

        def mutate(old: Object) -> Object | None:
            wanted = change(scale_of(target, old))
            check_kind(wanted, "Scale", "autoscaling/v1")
            review.body(wanted, body_kind(target.resource, target.subresource))
            metadata = check_metadata(wanted)
            if metadata.get("name") not in (None, "", target.name):
                raise BadRequest(f"the name of the object ({metadata['name']}) does not match the URL ({target.name})")
            new = with_replicas(target, old, _replicas(target, wanted))
            new["metadata"] = {**new["metadata"]}
            for field in ("uid", "resourceVersion"):
                if metadata.get(field):
                    new["metadata"][field] = metadata[field]
            return updated(main_resource(target), new, old, patching=True, owners=owners)

        outcome = await self._writing.change(request, mutate, options)
        return _scale_reply(request, target.resource.converter.view(outcome.stored).obj)


def main_resource(target: Target) -> Target:
    """Return the target without its subresource: a change of replicas is an update of the object's spec."""
    return Target(target.resource, target.verb, target.namespace, target.name)


def scale_of(target: Target, obj: Object) -> Object:
    metadata = {field: obj["metadata"][field] for field in IDENTITY if field in obj["metadata"]}
    scale: Object = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": {}, "status": {}}
    if replicas := _at(target, "specReplicasPath", obj):
        scale["spec"]["replicas"] = replicas
    scale["status"]["replicas"] = _at(target, "statusReplicasPath", obj) or 0
    selector = _at(target, "labelSelectorPath", obj)
    if selector:
        scale["status"]["selector"] = selector_text(selector) if isinstance(selector, dict) else format_value(selector)
    return scale


def _at(target: Target, field: str, obj: Object) -> Any:
    path = target.resource.scale.get(field)
    return value_at(obj, path) if path else None


def _replicas(target: Target, scale: Object) -> int:
    replicas = at(scale, "spec", "replicas")
    replicas = 0 if replicas is None else replicas
    if isinstance(replicas, bool) or not isinstance(replicas, int) or replicas < 0:
        cause = invalid("spec.replicas", replicas, "should be a non-negative integer")
        raise invalid_object("Scale", "autoscaling", target.name, [cause])
    return replicas


def with_replicas(target: Target, obj: Object, replicas: int) -> Object:
    """Return a copy with the replicas set; parts of the path that are missing or no objects become objects."""
    *steps, last = target.resource.scale["specReplicasPath"].removeprefix(".").split(".")
    made = part = {**obj}
    for step in steps:
        held = part.get(step)
        part[step] = part = {**held} if isinstance(held, dict) else {}
    part[last] = replicas
    return made


def _scale_reply(request: Request, obj: Object) -> Reply:
    return Reply(dump(scale_of(request.target, obj), request.form), media_type=request.form.media_type)
