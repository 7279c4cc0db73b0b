"""The objects of a running API, ours or another: one list of each kind."""

import asyncio
from pathlib import Path
from typing import Any

from protocols.errors import NodeplaneError
from protocols.kube.client import ApiClient, ClientOptions
from protocols.kube.errors import ApiError
from protocols.kube.resources import (
    DEVICECLASSES,
    DEVICETAINTRULES,
    RESOURCESLICEPATCHES,
    RESOURCESLICES,
    Resource,
)
from supervisor.dra.kubeconfig import client_options
from supervisor.errors import NotRunning, SupervisorError

Obj = dict[str, Any]
ASKED = (RESOURCESLICES, DEVICECLASSES, RESOURCESLICEPATCHES, DEVICETAINTRULES)
OPTIONAL = (RESOURCESLICEPATCHES, DEVICETAINTRULES)
"""Not every API serves them: where it does not, there are none."""
TIMEOUT_S = 20.0


def read_api(kubeconfig: Path) -> list[Obj]:
    """Raises NotRunning, SupervisorError, Usage."""
    with client_options(kubeconfig) as options:
        try:
            return asyncio.run(_read(options))
        except ApiError as error:
            raise SupervisorError(f"the API at {options.server} refuses: {error}") from None
        except NodeplaneError as error:
            raise NotRunning(f"the API at {options.server} does not answer: {error}") from None


async def _read(options: ClientOptions) -> list[Obj]:
    client = ApiClient(options)
    await client.start()
    try:
        found = await asyncio.gather(*(_list(client, resource) for resource in ASKED))
    finally:
        await client.close()
    return [obj for objects in found for obj in objects]


async def _list(client: ApiClient, resource: Resource) -> list[Obj]:
    try:
        page = await client.list(resource, timeout=TIMEOUT_S)
    except ApiError as error:
        if error.code == 404 and resource in OPTIONAL:
            return []
        raise
    return [{**item, "kind": resource.kind} for item in page.get("items") or ()]
