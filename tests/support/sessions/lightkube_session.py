"""lightkube, as it comes, blocking and asynchronous: every verb of its client. Argument: the kubeconfig."""

import asyncio
import sys

import pytest
from lightkube import ApiError, AsyncClient, Client, KubeConfig
from lightkube import operators as op
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.core_v1 import Container, PodSpec, PodStatus
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, Node, Pod
from lightkube.resources.core_v1 import PodStatus as StatusOf
from lightkube.types import CascadeType, PatchType

CONFIG = KubeConfig.from_file(sys.argv[1])
META = ObjectMeta(name="lk", namespace="default", labels={"app": "lk"})


def blocking() -> None:
    client = Client(config=CONFIG, field_manager="lk")
    made = client.create(ConfigMap(metadata=META, data={"a": "1"}))
    made.data["b"] = "2"
    assert client.replace(made).data == {"a": "1", "b": "2"}
    client.patch(ConfigMap, "lk", {"data": {"c": "3"}}, patch_type=PatchType.MERGE)
    client.patch(ConfigMap, "lk", [{"op": "remove", "path": "/data/c"}], patch_type=PatchType.JSON)
    assert client.get(ConfigMap, "lk").data == {"a": "1", "b": "2"}
    found = list(client.list(ConfigMap, labels={"app": op.in_(["lk", "other"])}, chunk_size=1))
    assert [each.metadata.name for each in found] == ["lk"]
    for kind, each in client.watch(ConfigMap, labels={"app": "lk"}, server_timeout=5):
        assert (kind, each.metadata.name) == ("ADDED", "lk")
        break
    applied = client.apply(ConfigMap(metadata=ObjectMeta(name="lk2", namespace="default"), data={"x": "y"}))
    assert applied.metadata.managedFields[0].manager == "lk"
    client.delete(ConfigMap, "lk2", grace_period=0, cascade=CascadeType.BACKGROUND)
    client.deletecollection(ConfigMap)
    with pytest.raises(ApiError) as caught:
        client.get(ConfigMap, "lk")
    assert (caught.value.status.code, caught.value.status.reason) == (404, "NotFound")
    claims = create_namespaced_resource("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims")
    request = {"name": "r", "exactly": {"deviceClassName": "c"}}
    client.create(
        claims({"metadata": {"name": "lk"}, "spec": {"devices": {"requests": [request]}}}), namespace="default"
    )
    assert [each.metadata.name for each in client.list(claims, namespace="*")] == ["lk"]
    client.delete(claims, "lk", namespace="default")


async def asynchronous() -> None:
    client = AsyncClient(config=CONFIG)
    await client.create(Node(metadata=ObjectMeta(name="lk")))
    await client.create(Pod(metadata=META, spec=PodSpec(containers=[Container(name="c", image="i")], nodeName="lk")))
    condition = {"type": "Ready", "status": "True"}
    waiting = asyncio.create_task(client.wait(Pod, "lk", for_conditions=["Ready"], namespace="default"))
    body = {"status": {"phase": "Running", "conditions": [condition]}}
    await client.patch(StatusOf, "lk", body, namespace="default")
    assert (await asyncio.wait_for(waiting, 10)).status.phase == PodStatus(phase="Running").phase
    assert [each.metadata.name async for each in client.list(Pod, fields={"spec.nodeName": "lk"})] == ["lk"]
    await client.delete(Pod, "lk", grace_period=0)
    async for kind, each in client.watch(Node, fields={"metadata.name": "lk"}):
        if kind == "ADDED":
            await client.delete(Node, each.metadata.name)
        if kind == "DELETED":
            break
    await client.close()


blocking()
asyncio.run(asynchronous())
print("done")
