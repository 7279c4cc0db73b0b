"""Load for the node's benches, a process of its own: hollow pods that are created at a steady rate, and deleted later.

`python -m tests.bench.pods_load ROOT PER_SECOND SECONDS`. Each pod is deleted LIFE_S after its creation.
"""

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import uvloop

from protocols.kinds.table import PODS
from protocols.kubeclient.client import ApiClient, ClientOptions
from protocols.process.settings import load_settings

LIFE_S = 5.0
HOLLOW = {"nodeplane.dev/hollow": "true"}


def client_of(root: Path) -> ApiClient:
    """A client with the rights of the plane's administrator."""
    settings = load_settings(root / "run" / "settings.json")
    cert, key = settings.layout.client_cert("admin")
    return ApiClient(ClientOptions(server=settings.api_url, ca=settings.layout.ca_cert, cert=cert, key=key))


def sleeping_pod(name: str, annotations: dict[str, str]) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox:1", "command": ["sleep", "100000"]}
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations}, "spec": spec}


async def main(root: Path, per_second: float, seconds: float) -> None:
    client = client_of(root)
    await client.start()

    async def live(name: str) -> None:
        await client.create(PODS, sleeping_pod(name, HOLLOW), "default")
        await asyncio.sleep(LIFE_S)
        await client.delete(PODS, name, "default")

    began, made = time.monotonic(), list[asyncio.Task[None]]()
    while len(made) < per_second * seconds:
        await asyncio.sleep(max(0.0, began + len(made) / per_second - time.monotonic()))
        made.append(asyncio.ensure_future(live(f"load-{len(made)}")))
    await asyncio.gather(*made)
    await client.close()


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])))
