"""What all flows share: the main of a user, and the commits of a run in order, against which promises are checked."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from protocols.kinds.table import NAMESPACES, PODS, Resource
from protocols.kube.errors import ApiError
from protocols.kube.meta import Object, labels_of, meta, terminating
from protocols.kube.pods import is_finished
from protocols.kubeclient.client import ApiClient, ClientOptions
from tests.simulation.control import workloads
from tests.simulation.control.history import REGISTRY, History
from tests.simulation.control.workloads import Step
from tests.simulation.model import Broken, Main

RETRY_S = 0.3


class Written(NamedTuple):
    """One commit of one object."""

    revision: int
    at: float
    """Elapsed seconds."""
    resource: str
    """The first part of the key below the registry, with a group the first two."""
    namespace: str
    name: str
    obj: Object | None
    """None: it is gone."""
    before: Object | None

    @property
    def last(self) -> Object:
        """The object, or its last content."""
        return self.obj or self.before or {}


class Flow(Protocol):
    """Users of one kind of workload in a namespace of their own, and what must hold for them."""

    name: str

    def users(self, options: ClientOptions) -> dict[str, Main]:
        """Return their mains by the names of their processes."""
        ...

    def check(self, commits: Sequence[Written]) -> Iterator[Broken]:
        """Yield broken promises; `commits` are those of its namespace, in order."""
        ...


def user(options: ClientOptions, step: Step, pause_s: float) -> Main:
    """Return the main of a client that makes a step every `pause_s` on average."""
    return workloads.user(options, step, pause_s, RETRY_S)


def in_order(history: History) -> Iterator[Written]:
    """Yield all commits of objects in order of their revisions."""
    held: dict[str, Object] = {}
    for (revision, raw), value in sorted(history.committed.items()):
        key = raw.decode()
        resource, _, rest = key.removeprefix(REGISTRY).partition("/")
        if "." in resource:  # a group, and its resources below it
            plural, _, rest = rest.partition("/")
            resource = f"{resource}/{plural}"
        namespace, _, name = rest.rpartition("/")
        if not key.startswith(REGISTRY) or (value is None and key not in held):
            continue
        before, obj = held.pop(key, None), None if value is None else _object(value)
        if obj is not None:
            held[key] = obj
        yield Written(revision, history.times[revision], resource, namespace, name, obj, before)


def _object(value: bytes) -> Object:
    """Return the object; what is no JSON is of no flow."""
    try:
        obj: Object = msgspec.json.decode(value)
    except msgspec.DecodeError:
        return {}
    return obj


def latest(commits: Sequence[Written], resource: str) -> dict[str, Object]:
    """Return the objects of a resource that are there at the end, by name."""
    last = {each.name: each.obj for each in commits if each.resource == resource}
    return {name: obj for name, obj in last.items() if obj is not None}


def left_behind(commits: Sequence[Written], parents: str, parent_of: Callable[[Written], str]) -> Iterator[str]:
    """Yield objects whose parent is not there, and those that a parent leaves when it goes."""
    there: set[str] = set()
    content: dict[str, set[str]] = defaultdict(set)
    for each in commits:
        if each.resource == parents:
            (there.add if each.obj else there.discard)(each.name)
            if not each.obj and (left := content[each.name]):
                yield f"{each.name} at {each.revision} leaves {sorted(left)[:3]}"
            continue
        parent, key = parent_of(each), f"{each.resource}/{each.name}"
        (content[parent].add if each.obj else content[parent].discard)(key)
        if each.obj and parent not in there:
            yield f"{key} at {each.revision} in {parent}, which is not there"


def owner_uid(obj: Object) -> str:
    """Return the uid of the first owner, empty without one."""
    references = meta(obj).get("ownerReferences") or [{}]
    return str(references[0].get("uid") or "")


def lives(pod: Object | None) -> bool:
    """Return True for a pod that is there, has not ended and is not to end."""
    return pod is not None and not terminating(pod) and not is_finished(pod)


def is_ready(pod: Object | None) -> bool:
    conditions = ((pod or {}).get("status") or {}).get("conditions") or ()
    return lives(pod) and any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def template(labels: dict[str, str], image: str = "i", **spec: Any) -> Object:
    """Return the template of a pod that asks for a little."""
    container = {"name": "c", "image": image, "resources": {"requests": {"cpu": "10m"}}}
    return {"metadata": {"labels": labels}, "spec": {"containers": [container], **spec}}


async def created(client: ApiClient, resource: Resource, obj: Object, name: str, namespace: str = "") -> bool:
    """Create an object; return False if it is there already."""
    try:
        await client.create(resource, {**resource.type_meta, **obj, "metadata": {"name": name}}, namespace)
    except ApiError as error:
        if error.code != 409:
            raise
        return False
    return True


async def together(calls: Iterable[Awaitable[object]]) -> None:
    """Make calls at once; raise the first error of the API when all have ended."""
    for answer in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(answer, BaseException):
            raise answer


async def make_namespace(client: ApiClient, name: str) -> None:
    await created(client, NAMESPACES, {}, name)


async def listed(client: ApiClient, resource: Resource, namespace: str) -> list[Object]:
    """Return the objects of a namespace that are not to end."""
    answer = await client.list(resource, namespace)
    return [obj for obj in answer.get("items") or () if not terminating(obj)]


async def pods_of(client: ApiClient, namespace: str, app: str) -> list[Object]:
    return [pod for pod in await listed(client, PODS, namespace) if labels_of(pod).get("app") == app]
