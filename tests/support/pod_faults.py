"""Pods as a client sends them, and what the server says of them."""

import copy
from typing import Any

from protocols.kinds.pods.pods import PODS

Object = dict[str, Any]


def pod(container: Object | None = None, **spec: Any) -> Object:
    metadata = {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7"}
    containers = [{"name": "c", "image": "busybox:1", **(container or {})}]
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}
    made = copy.deepcopy(made)
    PODS.strategy.default(made)
    PODS.strategy.prepare_create(made)
    return made


def faults(container: Object | None = None, **spec: Any) -> list[str]:
    causes = PODS.strategy.validate_create(pod(container, **spec))
    return [f"{cause.reason.removeprefix('FieldValue')} {cause.field.removeprefix('spec.')}" for cause in causes]
