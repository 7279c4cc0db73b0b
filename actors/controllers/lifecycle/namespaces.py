"""Namespace controller: create default content, and empty and finalize namespaces that were deleted.

The functions at the top are pure; NamespaceController carries out what they return.
"""

import logging
from collections.abc import Container, Mapping

import msgspec

from actors.controllers.common.kinds import Kinds
from actors.controllers.lifecycle.namespace_content import PAGE, Remaining, ending_conditions
from protocols.kinds.table import ALL, CONFIGMAPS, NAMESPACES, PODS, SERVICEACCOUNTS, Resource
from protocols.kube.errors import ApiError, suppress_status
from protocols.kube.meta import Object, key_of, name_of, namespace_of, terminating
from protocols.kube.times import now
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.workqueue import Key, RetryBackoff, WorkQueue

SYSTEM_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
FINALIZER = "kubernetes"
ROOT_CA = "kube-root-ca.crt"
NAMESPACE = "namespace"
CONTENT = tuple(resource for resource in ALL if resource.namespaced and resource is not PODS)


class Create(msgspec.Struct, frozen=True):
    """An object that must exist."""

    resource: Resource
    obj: Object
    namespace: str = ""


class Patch(msgspec.Struct, frozen=True):
    """A merge patch of an object that exists."""

    resource: Resource
    name: str
    namespace: str
    body: Object


def missing_namespaces(present: Container[str]) -> list[Create]:
    """Return the creation of each system namespace that is missing."""
    return [
        Create(NAMESPACES, {**NAMESPACES.type_meta, "metadata": {"name": name}})
        for name in SYSTEM_NAMESPACES
        if name not in present
    ]


def namespace_content_steps(
    namespace: str, ca: str, accounts: Mapping[str, Object], roots: Mapping[str, Object]
) -> list[Create | Patch]:
    """Return the steps that give a namespace its default service account and the CA bundle for pods.

    `accounts` and `roots` are the existing service accounts and config maps by key.
    """
    steps: list[Create | Patch] = []
    account = _object(SERVICEACCOUNTS.kind, "default", namespace)
    root = {**_object(CONFIGMAPS.kind, ROOT_CA, namespace), "data": {"ca.crt": ca}}
    if key_of(account) not in accounts:
        steps.append(Create(SERVICEACCOUNTS, account, namespace))
    known = roots.get(key_of(root))
    if known is None:
        steps.append(Create(CONFIGMAPS, root, namespace))
    elif known.get("data") != root["data"]:
        data = dict.fromkeys(known.get("data") or ()) | root["data"]  # null removes a key
        steps.append(Patch(CONFIGMAPS, ROOT_CA, namespace, {"data": data}))
    return steps


def _object(kind: str, name: str, namespace: str) -> Object:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}}


def is_ending(namespace: Object) -> bool:
    """Return True for a deleted namespace that still has our finalizer."""
    return terminating(namespace) and FINALIZER in ((namespace.get("spec") or {}).get("finalizers") or ())


def finalized(namespace: Object) -> Object:
    """Return the body for /finalize of an empty namespace."""
    spec = namespace.get("spec") or {}
    return {**namespace, "spec": {**spec, "finalizers": [name for name in spec["finalizers"] if name != FINALIZER]}}


Items = Mapping[str, Object]


class NamespaceCaches(msgspec.Struct):
    """The informers' stores that decisions read; set when the informers exist."""

    namespaces: Items = msgspec.field(default_factory=dict)
    accounts: Items = msgspec.field(default_factory=dict)
    roots: Items = msgspec.field(default_factory=dict)


class NamespaceController:
    """Handle namespaces, level-triggered and keyed by name.

    One that fails or is not empty yet comes again after a growing delay; none delays another.
    """

    def __init__(
        self, client: ApiClient, ca: str, log: logging.Logger, known: NamespaceCaches, kinds: Kinds | None = None
    ) -> None:
        self._kinds = kinds or Kinds()
        self._client = client
        self._ca = ca
        self._known = known
        self._work = WorkQueue(self._step, log)
        self._ending = RetryBackoff()

    def on_add(self, obj: Object) -> None:
        self.enqueue(name_of(obj))

    def on_update(self, old: Object, new: Object) -> None:
        """A namespace that goes on ending waits for its retry: most of its updates are this controller's reports."""
        if not (is_ending(old) and is_ending(new)):
            self.enqueue(name_of(new))

    def on_delete(self, obj: Object) -> None:
        self.enqueue(name_of(obj))

    def enqueue(self, name: str) -> None:
        self._work.put((NAMESPACE, name))

    def on_object_removed(self, name: str) -> None:
        """Check a terminating namespace at once: the removed object may have been its last."""
        namespace = self._known.namespaces.get(name)
        if namespace is not None and is_ending(namespace):
            self._ending.done(name)
            self.enqueue(name)

    async def run(self) -> None:
        await self._work.run()

    async def _step(self, key: Key) -> None:
        if await self._reconcile(key[1]):
            self._ending.done(key[1])
        else:
            self._work.put_later(key, self._ending.failed(key[1]))

    async def _reconcile(self, name: str) -> bool:
        """Reconcile one namespace; return False while its content remains."""
        for create in missing_namespaces(self._known.namespaces):
            await self._create(create)
        namespace = self._known.namespaces.get(name)
        if namespace is None:
            return True
        if is_ending(namespace):
            return await self._end(namespace)
        if terminating(namespace):
            return True
        for step in namespace_content_steps(name, self._ca, self._known.accounts, self._known.roots):
            await (self._create(step) if isinstance(step, Create) else self._patch(step))
        return True

    async def _create(self, step: Create) -> None:
        with suppress_status(403, 404, 409):  # 409: it is there; 403, 404: its namespace ends
            await self._client.create(step.resource, step.obj, step.namespace)

    async def _patch(self, step: Patch) -> None:
        await self._client.patch(step.resource, step.name, step.namespace, step.body)

    async def _end(self, namespace: Object) -> bool:
        """Delete the content of a namespace and finalize it once empty; return True when it ended."""
        left = await self._empty(name_of(namespace))
        with suppress_status(404):  # a pass whose effect the informer has not seen yet finalized it
            if left.objects or left.errors:
                await self._report(namespace, left)
                return False
            await self._client.update(NAMESPACES, finalized(namespace), "", "finalize")
        return True

    async def _empty(self, name: str) -> Remaining:
        """Delete what there is: pods first, as upstream, so that nothing they need goes before them."""
        left = Remaining()
        await self._delete(PODS, name, left)
        if left.objects or left.errors:
            return left
        for resource in (*CONTENT, *(custom for custom in self._kinds.custom() if custom.namespaced)):
            await self._delete(resource, name, left)
        return left

    async def _delete(self, resource: Resource, namespace: str, left: Remaining) -> None:
        """Delete all objects of a kind; one that cannot be deleted keeps no other kind.

        Nothing is left of a kind that the API server lacks.
        """
        try:
            if not (await self._client.list(resource, namespace, query={"limit": "1"})).get("items"):
                return
            await self._client.delete_collection(resource, namespace, policy="Background")
            left.add(resource, await self._client.list(resource, namespace, query={"limit": str(PAGE)}))
        except ApiError as error:
            if error.code != 404:
                left.errors.append(str(error))

    async def _report(self, namespace: Object, left: Remaining) -> None:
        conditions = ending_conditions(namespace, left, now())
        if conditions is not None:
            body = {"status": {"conditions": conditions}}
            await self._client.patch(NAMESPACES, name_of(namespace), "", body, subresource="status")


class NamespaceContentHandler:
    """Restore the default content of a namespace when it is deleted or changed."""

    def __init__(self, controller: NamespaceController) -> None:
        self._namespaces = controller

    def on_add(self, obj: Object) -> None:
        """Ignore additions; the namespace's own event checks its content."""

    def on_update(self, old: Object, new: Object) -> None:
        self._enqueue(new)

    def on_delete(self, obj: Object) -> None:
        self._enqueue(obj)

    def _enqueue(self, obj: Object) -> None:
        self._namespaces.enqueue(namespace_of(obj))
