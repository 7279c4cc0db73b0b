"""Delete objects: at once, or after their grace period and their finalizers."""

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from actors.apiserver.api.errors import BadRequest, Conflict, invalid_options
from actors.apiserver.api.request.query import integer
from actors.apiserver.api.request.target import Target, forbidden
from actors.apiserver.writes.metadata import finished, is_namespace
from protocols.kinds.check.causes import invalid, unsupported
from protocols.kinds.served.row import Served
from protocols.kube.meta import Object
from protocols.kube.times import format_time, parse_time

POLICIES = ("Foreground", "Background", "Orphan")
POLICY_FINALIZERS = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}
IGNORE = "ignoreStoreReadErrorWithClusterBreakingPotential"
NOT_BESIDE_IGNORE = ("propagationPolicy", "orphanDependents", "gracePeriodSeconds", "preconditions")
LONGEST_GRACE = 10 * 365 * 86400


class DeleteOptions(msgspec.Struct, frozen=True):
    """Options of a deletion, from its body and its query."""

    grace: int | None = None
    uid: str | None = None
    version: str | None = None
    dry_run: bool = False
    ignore_read_error: bool = False
    """Delete only an object that cannot be read."""
    policy: str = ""
    """Propagation policy for its dependents; empty leaves it to the finalizers."""
    cascades: bool = False
    """The client said so in the old way: 202 if the object is not gone at once."""

    @property
    def shown(self) -> Object:
        """The options that only deletions have, as policies and webhooks see them."""
        preconditions = {"uid": self.uid, "resourceVersion": self.version}
        return {
            "gracePeriodSeconds": self.grace,
            "preconditions": {name: value for name, value in preconditions.items() if value is not None},
            "propagationPolicy": self.policy,
        }


def delete_options(body: Object, query: Mapping[str, str], dry_runs: list[str]) -> DeleteOptions:
    """Parse the options from the body, or from the query if there is no body. Raises BadRequest, Invalid."""
    body = body or _from_query(query)
    if body.get("kind", "DeleteOptions") != "DeleteOptions":
        raise BadRequest(f"the kind in the data ({body['kind']}) does not match the expected kind (DeleteOptions)")
    preconditions = body.get("preconditions") or {}
    if not isinstance(preconditions, dict):
        raise BadRequest("preconditions must be an object")
    requested = body.get("dryRun") or []
    if not isinstance(requested, list):
        raise BadRequest("dryRun must be a list of strings")
    dry_runs = [*dry_runs, *requested]
    _check_policy(body, dry_runs)
    ignores = body.get(IGNORE)
    if ignores not in (None, True, False):
        raise BadRequest(f"{IGNORE} must be a boolean")
    _check_ignore(body, dry_runs)
    return DeleteOptions(
        grace=_grace(body.get("gracePeriodSeconds")),
        uid=_text(preconditions.get("uid")),
        version=_text(preconditions.get("resourceVersion")),
        dry_run=bool(dry_runs),
        ignore_read_error=bool(ignores),
        policy=_policy(body),
        cascades=body.get("orphanDependents") is False,
    )


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _from_query(query: Mapping[str, str]) -> Object:
    options: Object = {}
    if "gracePeriodSeconds" in query:
        options["gracePeriodSeconds"] = integer(query["gracePeriodSeconds"])
    if "propagationPolicy" in query:
        options["propagationPolicy"] = query["propagationPolicy"]
    if "orphanDependents" in query:
        options["orphanDependents"] = {"true": True, "false": False}.get(
            query["orphanDependents"], query["orphanDependents"]
        )
    if preconditions := {name: query[name] for name in ("uid", "resourceVersion") if query.get(name)}:
        options["preconditions"] = preconditions
    if IGNORE in query:
        options[IGNORE] = {"true": True, "false": False}.get(query[IGNORE], query[IGNORE])
    return options


def _check_ignore(body: Object, dry_runs: list[Any]) -> None:
    """Raise Invalid for options that need the content of an object that cannot be read."""
    if not body.get(IGNORE):
        return
    given = {"dryRun": dry_runs or None, **{field: body.get(field) for field in NOT_BESIDE_IGNORE}}
    causes = [
        invalid(IGNORE, True, f"cannot be set together with .{name}")
        for name, value in given.items()
        if value is not None
    ]
    if causes:
        raise invalid_options("DeleteOptions", *causes)


def _policy(body: Object) -> str:
    orphan = body.get("orphanDependents")
    if orphan is None:
        return str(body.get("propagationPolicy") or "")
    if not isinstance(orphan, bool):
        raise BadRequest("orphanDependents must be a boolean")
    return "Orphan" if orphan else "Background"


def _grace(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**63:
        raise BadRequest(f"invalid gracePeriodSeconds {value!r}: must be an integer of seconds")
    return min(value, LONGEST_GRACE)


def _check_policy(body: Object, dry_runs: list[Any]) -> None:
    policy = body.get("propagationPolicy")
    causes = [unsupported("dryRun", value, ("All",)) for value in dry_runs if value != "All"]
    if policy is not None and policy not in POLICIES:
        causes.append(unsupported("propagationPolicy", policy, (*POLICIES, "nil")))
    if policy is not None and body.get("orphanDependents") is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        causes.append(invalid("propagationPolicy", policy, text))
    if causes:
        raise invalid_options("DeleteOptions", *causes)


def deleted(target: Target, options: DeleteOptions, old: Object) -> Object | None:
    """Return the object after a delete request; None if it is removed as it is. Raises Conflict, Forbidden.

    A pod that is removed at once is answered as one that ended, as upstream: with the time of its deletion.
    """
    check_preconditions(target, options, old)
    strategy, metadata = target.resource.strategy, old["metadata"]
    if reason := strategy.protected(old):
        raise forbidden(target.resource, target.name, reason)
    strategy.prepare_delete(old)
    if metadata.get("deletionGracePeriodSeconds") and not _shorten(metadata, options.grace):
        return old
    if target.resource.collects_garbage:
        _set_policy(metadata, options.policy or _default_policy(target, old))
    graceful = target.resource.full_name == "pods"
    if not metadata.get("deletionTimestamp"):
        grace = strategy.grace_seconds(old, options.grace)
        if not (graceful or grace > 0 or metadata.get("finalizers") or _has_content(old)):
            return None
        _mark(old, grace)
    return None if finished(old) and not graceful else old


def check_preconditions(target: Target, options: DeleteOptions, old: Object) -> None:
    """Check uid and resourceVersion of a deletion. Raises Conflict."""
    metadata = old["metadata"]
    for field, wanted, label, fate in (
        ("uid", options.uid, "UID", "deleted and then recreated"),
        ("resourceVersion", options.version, "ResourceVersion", "modified"),
    ):
        actual = metadata.get(field)
        if wanted is not None and wanted != actual:
            text = f"the {label} in the precondition ({wanted}) does not match the {label} in record ({actual})"
            raise _precondition_failed(target.resource, target.name, f"{text}. The object might have been {fate}")


def _precondition_failed(resource: Served, name: str, text: str) -> Conflict:
    subject = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    message = f'Operation cannot be fulfilled on {subject} "{name}": {text}'
    return Conflict(message, {"name": name, "group": resource.group, "kind": resource.kind})


def _has_content(obj: Object) -> bool:
    """Return True for a namespace whose content has not been finalized yet."""
    return is_namespace(obj) and bool((obj.get("spec") or {}).get("finalizers"))


def _mark(obj: Object, grace: int) -> None:
    metadata = obj["metadata"]
    metadata["deletionTimestamp"] = format_time(time.time() + grace)
    metadata["deletionGracePeriodSeconds"] = grace
    if metadata.get("generation"):
        metadata["generation"] += 1
    if is_namespace(obj):
        del metadata["deletionGracePeriodSeconds"]
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}


def _default_policy(target: Target, obj: Object) -> str:
    """Return the policy of the kind; finalizers of a policy take precedence over it."""
    held = obj["metadata"].get("finalizers") or ()
    return "" if any(name in held for name in POLICY_FINALIZERS.values()) else target.resource.strategy.propagation


def _set_policy(metadata: Object, policy: str) -> None:
    """Set the finalizers of a propagation policy, which the garbage collector removes again."""
    if not policy:
        return
    finalizers = [name for name in metadata.get("finalizers") or () if name not in POLICY_FINALIZERS.values()]
    if policy in POLICY_FINALIZERS:
        finalizers.append(POLICY_FINALIZERS[policy])
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)


def _shorten(metadata: Object, asked: int | None) -> bool:
    """Shorten the grace period of a deletion under way; return False if it stays as it is. Nothing extends it.

    A period that would have ended before now ends now; unless it is 0, the node still removes the pod.
    """
    before, grace = metadata["deletionGracePeriodSeconds"], 1 if (asked or 0) < 0 else asked
    if grace is None or grace >= before:
        return False
    due, now = parse_time(metadata["deletionTimestamp"]) - before + grace, time.time()
    metadata["deletionTimestamp"] = format_time(max(due, now))
    metadata["deletionGracePeriodSeconds"] = min(grace, 1) if due < now else grace
    return True
