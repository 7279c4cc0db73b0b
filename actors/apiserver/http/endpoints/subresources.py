"""Subresources with a kind of their own: the eviction of a pod, the scale of a custom resource."""

from collections.abc import Callable
from typing import Any

from actors.apiserver.api.causes import invalid, invalid_object
from actors.apiserver.api.encoding.decode import decode_json, media_type
from actors.apiserver.api.encoding.render import dump
from actors.apiserver.api.errors import BadRequest
from actors.apiserver.api.objects import at, items, now
from actors.apiserver.api.query import write_options
from actors.apiserver.api.stored import fresh_copy
from actors.apiserver.api.target import Target
from actors.apiserver.custom.printing.columns import format_value
from actors.apiserver.custom.serving.strategy import value_at
from actors.apiserver.http.connection.requests import Request, read_body, read_object
from actors.apiserver.http.connection.responses import Reply
from actors.apiserver.http.endpoints.writing import Writing
from actors.apiserver.reads.reader import Reader
from actors.apiserver.writes.admission.admission import Admission
from actors.apiserver.writes.delete import check_preconditions, delete_options, deleted
from actors.apiserver.writes.loop import WriteLoop
from actors.apiserver.writes.metadata import check_kind, check_metadata
from actors.apiserver.writes.owners import updaters
from actors.apiserver.writes.patch import check_media, patcher
from actors.apiserver.writes.update import updated
from actors.apiserver.writes.validation import Review, body_kind
from protocols.kube.meta import Object

CONDITION = "DisruptionTarget"
OLD_EVICTION = "policy/v1beta1"
"""Upstream serves no other kind in this version, but still reads it here."""
SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


class Evicting:
    def __init__(self, loop: WriteLoop, admission: Admission) -> None:
        self._loop, self._admission = loop, admission

    async def create(self, request: Request) -> Reply:
        """Add the condition DisruptionTarget to the pod, then delete it. There are no disruption budgets to check."""
        target = request.target
        body = await read_object(request.http, "Eviction")
        asked = _eviction_options(target, body)
        options = delete_options(asked, {}, request.dry_runs)

        def mark_evicted(pod: Object) -> Object:
            check_preconditions(target, options, pod)
            return pod if pod["metadata"].get("deletionTimestamp") else _with_condition(pod)

        if not options.dry_run:
            await self._loop.run(target, self._admission.mutation(request.user, target, mark_evicted))
        # The condition changed the resourceVersion: only the uid may still be a precondition.
        relaxed = delete_options({**asked, "preconditions": {"uid": options.uid}}, {}, request.dry_runs)
        leave = self._admission.mutation(request.user, target, lambda pod: deleted(target, relaxed, pod))
        await self._loop.run(target, leave, options.dry_run)
        return Reply(dump(SUCCESS, request.form), 201, request.form.media_type)


def _eviction_options(target: Target, body: Object) -> Object:
    """Return the delete options of an Eviction. Raises BadRequest."""
    check_kind(body, "Eviction", body["apiVersion"] if body.get("apiVersion") == OLD_EVICTION else "policy/v1")
    metadata = check_metadata(body)
    if metadata.get("namespace") not in (None, "", target.namespace):
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    if metadata.get("name") != target.name:
        raise BadRequest("name in URL does not match name in Eviction object")
    options = body.get("deleteOptions") or {}
    if not isinstance(options, dict):
        raise BadRequest("deleteOptions must be an object")
    return options


def _with_condition(pod: Object) -> Object:
    status = pod.setdefault("status", {})
    others = [condition for condition in items(status, "conditions") if condition.get("type") != CONDITION]
    mine = {
        "type": CONDITION,
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now(),
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    status["conditions"] = [*others, mine]
    return pod


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
    replicas = _at(target, "specReplicasPath", obj)
    if replicas is not None:
        scale["spec"]["replicas"] = replicas
    scale["status"]["replicas"] = _at(target, "statusReplicasPath", obj) or 0
    selector = _at(target, "labelSelectorPath", obj)
    if selector:
        scale["status"]["selector"] = format_value(selector)
    return scale


def _at(target: Target, field: str, obj: Object) -> Any:
    custom = target.resource.custom
    path = custom.scale.get(field) if custom is not None else ""
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
    assert target.resource.custom is not None
    *steps, last = target.resource.custom.scale["specReplicasPath"].removeprefix(".").split(".")
    made = part = {**obj}
    for step in steps:
        held = part.get(step)
        part[step] = part = {**held} if isinstance(held, dict) else {}
    part[last] = replicas
    return made


def _scale_reply(request: Request, obj: Object) -> Reply:
    return Reply(dump(scale_of(request.target, obj), request.form), media_type=request.form.media_type)
