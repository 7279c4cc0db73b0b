"""kr8s, as it comes, blocking and asynchronous: objects, waits, watches, selectors. Argument: the kubeconfig."""

import asyncio
import sys

import kr8s
import kr8s.asyncio
from kr8s.objects import ConfigMap, Node

CONFIG = sys.argv[1]
CONDITIONS = [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady")]
SPEC = {"containers": [{"name": "c", "image": "busybox"}]}


def blocking() -> None:
    api = kr8s.api(kubeconfig=CONFIG)
    assert api.version()["minor"] == "36"
    assert api.whoami() == "admin"
    assert "pods" in {resource["name"] for resource in api.api_resources()}
    kept = ConfigMap({"metadata": {"name": "kr8s", "namespace": "default"}, "data": {"a": "1"}}, api=api)
    kept.create()
    assert kept.exists()
    kept.patch({"data": {"b": "2"}})
    kept.label({"app": "kr8s"})
    kept.annotate({"note": "x"})
    assert [found.name for found in api.get("configmaps", label_selector={"app": "kr8s"})] == ["kr8s"]
    kept.refresh()
    assert dict(kept.data) == {"a": "1", "b": "2"}
    try:
        ConfigMap.get("nowhere", namespace="default", api=api)
    except kr8s.NotFoundError:
        kept.delete()
    assert not kept.exists()
    node = Node({"metadata": {"name": "kr8s"}}, api=api)
    node.create()
    node.cordon()
    assert node.unschedulable
    node.uncordon()
    node.delete()


async def asynchronous() -> None:
    from kr8s.asyncio.objects import Pod

    api = await kr8s.asyncio.api(kubeconfig=CONFIG)
    pod = await Pod({"metadata": {"name": "kr8s", "namespace": "default"}, "spec": SPEC}, api=api)
    await pod.create()
    status = {"status": {"phase": "Running", "conditions": CONDITIONS}}
    waiting = asyncio.create_task(pod.wait("condition=Ready", timeout=10))
    await pod.patch(status, subresource="status")
    await waiting
    assert await pod.ready()
    seen = []
    async for kind, found in api.watch("pods", namespace="default", field_selector="metadata.name=kr8s"):
        seen.append((kind, found.name))
        if kind == "ADDED":
            await pod.delete(grace_period=0)
        if kind == "DELETED":
            break
    assert seen[0] == ("ADDED", "kr8s"), seen
    assert [found async for found in api.get("pods", namespace="default")] == []


blocking()
asyncio.run(asynchronous())
print("done")
