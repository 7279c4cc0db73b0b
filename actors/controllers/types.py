"""The vocabulary of controllers."""

from dataclasses import dataclass

from protocols.kube.meta import Object
from protocols.kube.resources import Resource


@dataclass(frozen=True)
class Create:
    """An object that must exist."""

    resource: Resource
    obj: Object
    namespace: str = ""


@dataclass(frozen=True)
class Patch:
    """A merge patch of an object that exists."""

    resource: Resource
    name: str
    namespace: str
    body: Object
