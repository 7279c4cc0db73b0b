"""POST pods/NAME/eviction: a pod is asked to leave; there are no disruption budgets here that could say no."""

from actors.apiserver.api.encoding.render import dump
from actors.apiserver.api.errors import BadRequest
from actors.apiserver.api.objects import Obj, items, now
from actors.apiserver.api.target import Target
from actors.apiserver.http.connection.requests import Request, read_object
from actors.apiserver.http.connection.responses import Reply
from actors.apiserver.writes.admission.admission import Admission
from actors.apiserver.writes.delete import check_preconditions, delete_options, deleted
from actors.apiserver.writes.loop import WriteLoop
from actors.apiserver.writes.metadata import check_kind, check_metadata

CONDITION = "DisruptionTarget"
SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


class Evicting:
    def __init__(self, loop: WriteLoop, admission: Admission) -> None:
        self._loop, self._admission = loop, admission

    async def create(self, request: Request) -> Reply:
        """First the pod says why it goes, then it is deleted, as it would be by anybody."""
        target = request.target
        body = await read_object(request.http, "Eviction")
        asked = _asked(target, body)
        options = delete_options(asked, {}, request.dry_runs)

        def mark_evicted(pod: Obj) -> Obj:
            check_preconditions(target, options, pod)
            return pod if pod["metadata"].get("deletionTimestamp") else _marked(pod)

        if not options.dry_run:
            await self._loop.run(target, self._admission.mutation(request.user, target, mark_evicted))
        relaxed = delete_options({**asked, "preconditions": {"uid": options.uid}}, {}, request.dry_runs)
        leave = self._admission.mutation(request.user, target, lambda pod: deleted(target, relaxed, pod))
        await self._loop.run(target, leave, options.dry_run)
        return Reply(dump(SUCCESS, request.form), 201, request.form.media_type)


def _asked(target: Target, body: Obj) -> Obj:
    """The delete options in it."""
    check_kind(body, "Eviction", "policy/v1")
    metadata = check_metadata(body)
    for field, wanted in (("name", target.name), ("namespace", target.namespace)):
        if metadata.get(field) not in (None, "", wanted):
            text = f"the {field} of the object ({metadata[field]}) does not match the {field} on the URL ({wanted})"
            raise BadRequest(text)
    options = body.get("deleteOptions") or {}
    if not isinstance(options, dict):
        raise BadRequest("deleteOptions must be an object")
    return options


def _marked(pod: Obj) -> Obj:
    status = pod.setdefault("status", {})
    others = [condition for condition in items(status, "conditions") if condition.get("type") != CONDITION]
    mine = {
        "type": CONDITION,
        "status": "True",
        "lastTransitionTime": now(),
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    status["conditions"] = [*others, mine]
    return pod
