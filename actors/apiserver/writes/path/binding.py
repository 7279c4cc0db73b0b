"""Bind a pod while the claims that are reserved for it stay so.

A scheduler binds a pod once its claims are reserved for it. A binding may wait for its store while that is restored
from a backup, which has the pod as it was and not the reservations: bound without them it could run nowhere. So the
binding depends on the claims, in one transaction. Claims that are not reserved keep no pod from being bound, as in
upstream, but those that the scheduler names (`?reservedClaims=NAME,NAME`): it has seen their reservations.
"""

from functools import partial
from typing import cast

from actors.apiserver.api.request.target import conflict
from actors.apiserver.api.stored import Stored
from actors.apiserver.storage.storage import HeldChanged
from actors.apiserver.writes.change import Change
from actors.apiserver.writes.path.steps import ATTEMPTS, WritePath, Written
from actors.apiserver.writes.update import bound
from protocols.dra.pods import claim_names, is_reserved_for, used_claims
from protocols.kinds import views
from protocols.kinds.table import PODS, RESOURCECLAIMS
from protocols.kube.meta import Object, join_key, namespace_of, uid_of

MOST = 100
"""Claims that a binding depends on; etcd compares up to 128 keys in a transaction."""
Revisions = dict[bytes, int]
"""Revisions by keys of the store."""


async def bind(path: WritePath, change: Change, binding: Object) -> Written:
    """Store a checked binding. Raises NotFound, BadRequest, and Conflict also if a claim is not the pod's any more."""
    target = change.target
    pod = path.replicas[target.resource.store].objects.get(target.key)
    if pod is None or None in claim_names(cast("views.Pod", pod.obj)).values():  # the replica may be behind
        pod = await path.read(target)
    change.held = await _reserved(path, change, pod, fresh=False)
    for _ in range(ATTEMPTS):
        try:
            return await path.change(change, partial(bound, target, binding))
        except HeldChanged:
            before, change.held = change.held, await _reserved(path, change, pod, fresh=True)
            if before.keys() != change.held.keys():
                break
    raise conflict(target.resource, target.name)


async def _reserved(path: WritePath, change: Change, pod: Stored, *, fresh: bool) -> Revisions:
    """Return the claims that are reserved for a pod; with `fresh` as the store has them, not the replica.

    Raises Conflict if one that the request names is not.
    """
    claims, revisions, named = path.replicas[RESOURCECLAIMS.full_name], Revisions(), change.options.reserved_claims
    names = list(dict.fromkeys((*named, *used_claims(cast("views.Pod", pod.obj)))))
    if not path.storage.are_together(path.replicas[PODS.full_name].resource, claims.resource):
        return revisions
    uid, namespace = uid_of(pod.obj), namespace_of(pod.obj)
    for name in names[:MOST]:
        key = join_key(namespace, name)
        claim = None if fresh else claims.objects.get(key)
        if not _is_reserved(claim, uid):
            claim = await path.storage.get(claims.resource, key)
        if claim is not None and _is_reserved(claim, uid):
            revisions[f"{claims.resource.storage_prefix}{key}".encode()] = claim.rv
        elif name in named:
            text = f'claim "{name}" is not reserved for the pod'
            raise conflict(change.target.resource, change.target.name, text)
    return revisions


def _is_reserved(claim: Stored | None, uid: str) -> bool:
    return claim is not None and is_reserved_for(cast("views.ResourceClaim", claim.obj), uid)
