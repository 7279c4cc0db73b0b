"""Shapes of kinds by group and version. The tables are imported and read when somebody asks for the first time."""

import functools
from collections.abc import Iterable, Mapping

from actors.apiserver.api.schemas.parse import PLAIN, empty_struct, fill, lines
from actors.apiserver.api.schemas.shape import Shape

API = "io.k8s.api."
META = "io.k8s.apimachinery.pkg.apis.meta.v1"
GROUP_SUFFIX = ".k8s.io"


class Registry:
    """`texts`: tables by package, the part of a full name before the type."""

    def __init__(self, texts: Mapping[str, Iterable[str]]) -> None:
        self.structs: dict[str, Shape] = {}
        self._aliases = {_alias(package): package for package in texts}
        bodies: list[tuple[str, Shape, list[str]]] = []
        for package, parts in texts.items():
            for header, fields in (pair for part in parts for pair in lines(part)):
                struct = empty_struct(package, header)
                self.structs[struct.name] = struct
                bodies.append((package, struct, fields))
        for package, struct, fields in bodies:
            fill(struct, fields, functools.partial(self._lookup, package))

    def kind(self, group: str, version: str, kind: str) -> Shape | None:
        """The shape of a served kind; None = nothing is known of it."""
        name = group.removesuffix(GROUP_SUFFIX).partition(".")[0] or "core"
        return self.structs.get(f"{API}{name}.{version}.{kind}")

    def _lookup(self, package: str, name: str) -> Shape:
        alias, dot, short = name.partition(".")
        return self.structs[f"{self._aliases[alias]}.{short}" if dot else f"{package}.{name}"]


def _alias(package: str) -> str:
    """`core` of io.k8s.api.core.v1; a second version of a group is never referred to from elsewhere."""
    parts = package.split(".")
    return parts[-2] if parts[-1] == "v1" else package


@functools.lru_cache(maxsize=1)
def registry() -> Registry:
    from actors.apiserver.api.schemas import (
        cluster,
        core_containers,
        core_objects,
        core_pod,
        core_volumes,
        extensions,
        meta,
        others,
        resource,
    )

    core = (core_objects.CORE_OBJECTS, core_pod.CORE_POD, core_containers.CORE_CONTAINERS, core_volumes.CORE_VOLUMES)
    core_texts = (*core, cluster.CORE_STORAGE)
    texts: dict[str, tuple[str, ...]] = {META: (meta.META,), f"{API}core.v1": core_texts}
    texts[f"{API}resource.v1"] = (resource.RESOURCE,)
    texts[f"{API}resource.v1beta2"] = (resource.RESOURCE_BETA2,)
    texts[f"{API}resource.v1beta1"] = (resource.RESOURCE_BETA1,)
    texts[f"{API}resource.v1alpha3"] = (resource.RESOURCE_ALPHA,)
    for name in ("discovery", "node", "scheduling", "storage"):
        texts[f"{API}{name}.v1"] = (getattr(cluster, name.upper()),)
    texts[f"{API}apiextensions.v1"] = (extensions.EXTENSIONS,)
    texts[f"{API}autoscaling.v1"] = (extensions.AUTOSCALING,)
    for name in ("authentication", "authorization", "coordination", "events", "policy", "rbac"):
        texts[f"{API}{name}.v1"] = (getattr(others, name.upper()),)
    texts[f"{API}metrics.v1beta1"] = (others.METRICS,)
    return Registry(texts)


@functools.lru_cache(maxsize=64)
def kind_shape(group: str, version: str, kind: str) -> Shape | None:
    return registry().kind(group, version, kind)


ANYTHING = PLAIN["any"]
