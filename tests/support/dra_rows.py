"""Rows of resource.k8s.io, and what becomes of an object that is created through one."""

import copy

from actors.apiserver.table import TABLE
from protocols.kinds.served.row import Served
from protocols.kinds.shapes.clean import clean
from protocols.kube.meta import Object

GROUP = "resource.k8s.io"
LABELLED = {"key": "k", "effect": "NoSchedule"}
SLICE: Object = {"driver": "D.example.com", "pool": {"name": "n/p", "resourceSliceCount": 1}, "allNodes": True}


def row(plural: str, version: str = "v1") -> Served:
    found = TABLE.find(GROUP, version, plural)
    assert found is not None
    return found


def body(resource: Served, spec: Object) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "x"}, "spec": spec}


def created(resource: Served, spec: Object) -> tuple[Object, list[str]]:
    """The object as it would be stored, and what is wrong with it."""
    obj = body(resource, copy.deepcopy(spec))
    assert resource.shape is not None
    assert clean(obj, resource.shape) == []
    resource.strategy.default(obj)
    resource.strategy.prepare_create(obj)
    return obj, [f"{cause.field}: {cause.message}" for cause in resource.strategy.validate_create(obj)]
