"""Read DRA objects from YAML or JSON files, or from an API, older versions included."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec
import yaml

from protocols.dra.versions import as_v1
from protocols.errors import NodeplaneError
from protocols.kinds.table import (
    DEVICECLASSES,
    DEVICETAINTRULES,
    NODES,
    PODS,
    RESOURCECLAIMS,
    RESOURCECLAIMTEMPLATES,
    RESOURCESLICEPATCHES,
    RESOURCESLICES,
    Resource,
)
from protocols.kube.errors import ApiError, KubeError
from protocols.kube.meta import Object, name_of
from protocols.kube.yaml_text import Document, read_documents
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.kubeconfig import ClientOptions, client_options
from protocols.process.files import read_input
from supervisor.base.errors import NotRunning, SupervisorError, UsageError

T = TypeVar("T")
GROUP = "resource.k8s.io/"
VERSIONS = ("v1", "v1beta2", "v1beta1", "v1alpha3")
KINDS = ("ResourceSlice", "ResourceClaim", "ResourceClaimTemplate", "DeviceClass")
"""Kinds whose older versions are read as v1."""
EXPANDED = 100_000
"""Values and characters that YAML's aliases may add."""
SHOWN_CAUSES = 3
TIMEOUT_S, REFUSED_S = 20.0, 2.0
"""Seconds an API may take for an answer, and for which it may refuse connections."""


def read_objects(paths: list[str]) -> list[Object]:
    """Read objects from files, in any order, as an API server reads YAML. Raises UsageError."""
    objects: list[Object] = []
    for path in paths:
        for document in _documents(path):
            objects += _items(path, document.value)
    for number, obj in enumerate(objects):
        _complete(obj, number)
    return objects


def _documents(path: str) -> list[Document]:
    try:
        return read_documents(read_input(path), EXPANDED)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise UsageError(f"{path} is no YAML: {' '.join(str(error).split())[:200]}") from None


def _items(path: str, obj: Any) -> list[Object]:
    if obj is None:
        return []
    if not isinstance(obj, dict):
        raise UsageError(f"{path} holds something that is no object: {str(obj)[:60]!r}")
    version = str(obj.get("apiVersion") or "")
    if str(obj.get("kind") or "").endswith("List") and isinstance(obj.get("items"), list):
        typed = [{"apiVersion": version, **item} if isinstance(item, dict) else item for item in obj["items"]]
        return [each for item in typed for each in _items(path, item)]
    if version.startswith(GROUP) and version.removeprefix(GROUP) not in VERSIONS:
        raise UsageError(f"{path}: {version} is not read from files; `kubectl convert` or `kubectl get` gives it as v1")
    return [as_v1(obj) if obj.get("kind") in KINDS else obj]


def _complete(obj: Object, number: int) -> None:
    """Give an object a name where the server would. Objects without a creation time count as equally old."""
    metadata = obj.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        raise UsageError(f"metadata of a {obj.get('kind')} is no map")
    metadata["name"] = str(metadata.get("name") or f"unnamed-{number}")


def check_admitted(obj: Object) -> None:
    """Raise UsageError for a patch, rule or class that an API server refuses; its selectors are not compiled here."""
    from protocols.kinds.dra.devices import CLASSES, PATCHES, RULES  # half a second, for patches in files only

    row = next((row for row in (PATCHES, RULES, CLASSES) if row.kind == obj.get("kind")), None)
    if row is None:
        return
    admitted = _admitted(obj, row)
    causes = [f"{cause.field}: {cause.message}" for cause in row.strategy.validate_update(admitted, admitted)]
    if causes:
        raise UsageError(f"{row.kind} {name_of(obj)}: {'; '.join(causes[:SHOWN_CAUSES])}")


def check_claim(obj: Object) -> None:
    """Raise UsageError for a claim or template with a value of a wrong type."""
    resources = (RESOURCECLAIMS, RESOURCECLAIMTEMPLATES)
    resource = next((resource for resource in resources if resource.kind == obj.get("kind")), None)
    if resource is None:
        known = " and ".join(resource.kind for resource in resources)
        raise UsageError(f"--claim takes {known}, not {obj.get('kind')}")
    _admitted(obj, resource)


def _admitted(obj: Object, resource: Resource) -> Object:
    """Return a copy as the API stores it. Raises UsageError for a value of a wrong type."""
    from protocols.kinds.shapes.stored import as_stored  # slow to load

    try:
        return as_stored(obj, resource)
    except KubeError as error:
        raise UsageError(f"{resource.kind} {name_of(obj)}: {error}") from None


RESOURCES = (RESOURCESLICES, DEVICECLASSES, RESOURCESLICEPATCHES, DEVICETAINTRULES)
OPTIONAL = (RESOURCESLICEPATCHES, DEVICETAINTRULES)
"""Resources that not every API serves."""


def read_api(kubeconfig: Path, *, claims: bool = False) -> list[Object]:
    """List the DRA objects of an API; `claims` adds ResourceClaims. Raises NotRunning, SupervisorError, UsageError."""
    resources = (*RESOURCES, RESOURCECLAIMS) if claims else RESOURCES
    return _asked(kubeconfig, lambda client: list_objects(client, resources))


def read_slices(kubeconfig: Path, driver: str) -> list[Object]:
    """List the ResourceSlices of a driver. Raises NotRunning, SupervisorError, UsageError."""
    return _asked(kubeconfig, lambda client: list_objects(client, (RESOURCESLICES,), driver=driver))


def read_pod(kubeconfig: Path, key: str) -> tuple[Any, list[Object]]:
    """Return a pod, and the objects that decide where it can run. Raises NotRunning, SupervisorError, UsageError."""
    namespace, _, name = key.rpartition("/")

    async def read(client: ApiClient) -> tuple[Any, list[Object]]:
        try:
            pod = await client.get(PODS, name, namespace or "default")
        except ApiError as error:
            if error.code != 404:
                raise
            raise UsageError(f"no pod {namespace or 'default'}/{name}; give it as NAMESPACE/NAME") from None
        return pod, await list_objects(client, (*RESOURCES, RESOURCECLAIMS, NODES, PODS))

    return _asked(kubeconfig, read)


def _asked(kubeconfig: Path, read: Callable[[ApiClient], Awaitable[T]]) -> T:
    async def run(options: ClientOptions) -> T:
        client = ApiClient(msgspec.structs.replace(options, refused_s=REFUSED_S))
        await client.start()
        try:
            return await read(client)
        finally:
            await client.close()

    with client_options(kubeconfig, timeout=TIMEOUT_S) as options:
        try:
            return asyncio.run(run(options))
        except (UsageError, SupervisorError):
            raise
        except ApiError as error:
            raise SupervisorError(f"the API at {options.server} refuses: {error}") from None
        except NodeplaneError as error:
            raise NotRunning(f"the API at {options.server} does not answer: {error}; is its plane running?") from None


class Lister(Protocol):
    """Lists objects: a client of the API, or a recording."""

    async def list(self, resource: Resource, namespace: str = "", *, field_selector: str = "") -> Object: ...


async def list_objects(client: Lister, resources: Iterable[Resource] = RESOURCES, *, driver: str = "") -> list[Any]:
    """Return the objects of these resources, ResourceSlices of one driver if it is given. Raises ApiError, ApiAway."""
    lists = await asyncio.gather(*(_list(client, resource, driver) for resource in resources))
    return [obj for objects in lists for obj in objects]


async def _list(client: Lister, resource: Resource, driver: str) -> list[Object]:
    selector = f"spec.driver={driver}" if driver and resource is RESOURCESLICES else ""
    try:
        page = await client.list(resource, field_selector=selector)
    except ApiError as error:
        if error.code == 404 and resource in OPTIONAL:
            return []
        raise
    return [{**item, "kind": resource.kind} for item in page.get("items") or ()]
