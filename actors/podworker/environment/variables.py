"""A container's environment: literals, references, downward API fields, `$(NAME)` expansion. Pure."""

from collections.abc import Mapping
from functools import cached_property

from actors.podworker.environment.downward import Node, field_value, resource_value
from actors.podworker.environment.expand import Budget, expand
from actors.podworker.environment.references import CONFIG_MAP, SECRET, Contents, Found, Ref
from actors.podworker.errors import ContainerConfigInvalid
from actors.podworker.types import ContainerSpec, Object, PodSpec


def build_environment(
    spec: PodSpec,
    container: ContainerSpec,
    node: Node,
    granted: Mapping[str, str],
    found: Found | None = None,
    services: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """In order: services, whole objects (envFrom), the spec's variables, what device plugins grant; the later wins.

    Raises ContainerConfigInvalid for a reference to nothing, and for more than MAX_ENVIRONMENT.
    """
    scope = _Scope(spec, container, node, found or {})
    variables = {**(services or {}), **scope.imported()}
    for entry in container.raw.get("env") or ():
        value = scope.value(entry, variables)
        if value is not None:
            variables[entry.get("name", "")] = value
    return {**variables, **granted}


def needs_pod_ip(container: ContainerSpec) -> bool:
    fields = (
        ((e.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath", "") for e in container.raw.get("env") or ()
    )
    return any(field.startswith("status.podIP") for field in fields)


class _Scope:
    def __init__(self, spec: PodSpec, container: ContainerSpec, node: Node, found: Found) -> None:
        self._spec = spec
        self._container = container
        self._node = node
        self._found = found
        self._budget = Budget()

    def imported(self) -> dict[str, str]:
        variables: dict[str, str] = {}
        for entry in self._container.raw.get("envFrom") or ():
            prefix = entry.get("prefix") or ""
            for kind, field in ((CONFIG_MAP, "configMapRef"), (SECRET, "secretRef")):
                if entry.get(field):
                    contents = self._contents(kind, entry[field]) or {}
                    self._budget.spend(sum(len(prefix) + len(key) + len(contents[key]) + 1 for key in contents))
                    variables |= {prefix + key: _text(contents[key]) for key in sorted(contents) if _usable(key)}
        return variables

    def value(self, entry: Object, known: Mapping[str, str]) -> str | None:
        """None: an optional reference to what there is not; the variable is left out."""
        source = entry.get("valueFrom")
        if not source:
            return expand(entry.get("value") or "", known, self._budget)
        try:
            value = self._referred(source)
            self._budget.spend(len(value or ""))
            return value
        except ContainerConfigInvalid as error:
            where = f"container {self._container.name}: env {entry.get('name', '')}"
            raise ContainerConfigInvalid(f"{where}: {error}") from None

    def _referred(self, source: Object) -> str | None:
        if source.get("fieldRef"):
            return field_value(source["fieldRef"].get("fieldPath") or "", self._spec, self._node)
        if source.get("resourceFieldRef"):
            return resource_value(source["resourceFieldRef"], self._containers, self._container, self._node)
        for kind, field in ((CONFIG_MAP, "configMapKeyRef"), (SECRET, "secretKeyRef")):
            if source.get(field):
                return self._key(kind, source[field])
        kind = next(iter(source), "valueFrom")
        raise ContainerConfigInvalid(f"takes its value from {kind}, which is not supported")

    @cached_property
    def _containers(self) -> dict[str, ContainerSpec]:
        return {container.name: container for container in self._spec.containers}

    def _key(self, kind: str, reference: Object) -> str | None:
        contents, key = self._contents(kind, reference), reference.get("key") or ""
        if contents is not None and key in contents:
            return _text(contents[key])
        if reference.get("optional") or contents is None:
            return None
        name = f"{self._spec.namespace}/{reference.get('name', '')}"
        raise ContainerConfigInvalid(f"couldn't find key {key} in {kind} {name}")

    def _contents(self, kind: str, reference: Object) -> Contents | None:
        """None: not there, and optional."""
        ref = Ref(kind, str(reference.get("name") or ""))
        contents = self._found.get(ref)
        if contents is None and not reference.get("optional"):
            raise ContainerConfigInvalid(f"{ref} not found")
        return contents


def _usable(name: str) -> bool:
    """A name the kernel takes; others are left out."""
    return bool(name) and "=" not in name and name.isprintable()


def _text(value: bytes) -> str:
    if b"\0" in value:
        raise ContainerConfigInvalid("holds a NUL byte, which no environment variable can")
    return value.decode(errors="surrogateescape")
