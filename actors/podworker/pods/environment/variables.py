"""Environment variables of a container: literals, references, downward API, `$(NAME)` expansion. Pure."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from actors.podworker.model.dependencies import NodeFields
from actors.podworker.model.errors import ContainerConfigInvalid
from actors.podworker.pods.environment.downward import field_value, resource_value
from actors.podworker.pods.environment.env_files import FileRef, Files
from actors.podworker.pods.environment.references import CONFIG_MAP, SECRET, Contents, Found, Ref
from protocols.kinds import views
from protocols.lifecycle.pods.types import ContainerSpec, PodSpec

MAX_ENVIRONMENT = 8 << 20
"""Characters of a container's variables, and of its command. Linux executes nothing above 6 MiB."""


class ExpansionBudget:
    """Limit on the expanded characters of one container: references to references grow exponentially."""

    def __init__(self, most: int = MAX_ENVIRONMENT) -> None:
        self._left = self._most = most

    def spend(self, characters: int) -> None:
        """Raise ContainerConfigInvalid once the limit is exceeded."""
        self._left -= characters
        if self._left < 0:
            raise ContainerConfigInvalid(
                f"its values have more than {self._most} characters together; use fewer or smaller ones"
            )


def expand(text: str, variables: Mapping[str, str], budget: ExpansionBudget | None = None) -> str:
    """Return `text` with known names replaced.

    Unknown references stay as written, `$$` is one dollar sign that starts nothing. Raises ContainerConfigInvalid once
    the result exceeds the budget, which is one of its own if there is none.
    """
    budget = budget or ExpansionBudget()
    out: list[str] = []
    position, last = 0, text.rfind(")")
    while (dollar := text.find("$", position)) >= 0 and dollar + 1 < len(text):
        piece, following = _reference(text, dollar, last, variables)
        budget.spend(dollar - position + len(piece))
        out += (text[position:dollar], piece)
        position = following
    budget.spend(len(text) - position)
    out.append(text[position:])
    return "".join(out)


def _reference(text: str, dollar: int, last: int, variables: Mapping[str, str]) -> tuple[str, int]:
    """Return the replacement of the operator at `dollar`, and the position after it.

    `last` is the last parenthesis: references that are never closed must not each search the rest of the text.
    """
    following = text[dollar + 1]
    if following == "$":
        return "$", dollar + 2
    end = text.find(")", dollar + 2) if following == "(" and last >= dollar + 2 else -1
    if end < 0:
        return text[dollar : dollar + 2], dollar + 2
    name = text[dollar + 2 : end]
    return variables.get(name, f"$({name})"), end + 1


def build_environment(
    spec: PodSpec,
    container: ContainerSpec,
    node: NodeFields,
    granted: Mapping[str, str],
    found: Found | None = None,
    services: Mapping[str, str] | None = None,
    files: Files | None = None,
) -> dict[str, str]:
    """In order: what device plugins grant, services, whole objects (envFrom), the spec's variables; the later wins.

    Raises ContainerConfigInvalid for a reference to nothing, and for more than MAX_ENVIRONMENT.
    """
    scope = _Scope(spec, container, node, found or {}, files or {})
    variables = {**(services or {}), **scope.imported()}
    for entry in container.raw.get("env") or ():
        value = scope.value(entry, variables)
        if value is not None:
            variables[entry.get("name", "")] = value
    return {**granted, **variables}


def needs_pod_ip(container: ContainerSpec) -> bool:
    """Return True if a variable shows the pod's address, which it has once its sandbox runs."""
    fields = (
        ((e.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath", "") for e in container.raw.get("env") or ()
    )
    return any(field.startswith("status.podIP") for field in fields)


class _Scope:
    def __init__(self, spec: PodSpec, container: ContainerSpec, node: NodeFields, found: Found, files: Files) -> None:
        self._spec = spec
        self._container = container
        self._node = node
        self._found = found
        self._files = files
        self._budget = ExpansionBudget()

    def imported(self) -> dict[str, str]:
        variables: dict[str, str] = {}
        for entry in self._container.raw.get("envFrom") or ():
            prefix = entry.get("prefix") or ""
            for kind, reference in ((CONFIG_MAP, entry.get("configMapRef")), (SECRET, entry.get("secretRef"))):
                if reference:
                    contents = self._contents(kind, reference) or {}
                    self._budget.spend(sum(len(prefix) + len(key) + len(contents[key]) + 1 for key in contents))
                    variables |= {prefix + key: _text(contents[key]) for key in sorted(contents) if _usable(key)}
        return variables

    def value(self, entry: views.EnvVar, known: Mapping[str, str]) -> str | None:
        """Return the variable's value, None for an optional reference to a missing object or key."""
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

    def _referred(self, source: views.EnvVarSource) -> str | None:
        if source.get("fieldRef"):
            return field_value(source["fieldRef"].get("fieldPath") or "", self._spec, self._node)
        if source.get("resourceFieldRef"):
            pod = self._spec.raw.get("spec") or {}
            return resource_value(source["resourceFieldRef"], self._containers, self._container, pod, self._node)
        for kind, reference in ((CONFIG_MAP, source.get("configMapKeyRef")), (SECRET, source.get("secretKeyRef"))):
            if reference:
                return self._key(kind, reference)
        if source.get("fileKeyRef"):
            return self._from_file(source["fileKeyRef"])
        kind = next(iter(source), "valueFrom")
        raise ContainerConfigInvalid(f"takes its value from {kind}, which is not supported")

    def _from_file(self, reference: views.FileKeySelector) -> str | None:
        path, key = str(reference.get("path") or ""), str(reference.get("key") or "")
        file = self._files.get(FileRef(str(reference.get("volumeName") or ""), path))
        value = file.find(key) if file is not None else None
        if value is None and not reference.get("optional"):
            raise ContainerConfigInvalid(f'environment variable key "{key}" not found in file "{path}"')
        return _text(value.encode(errors="surrogateescape")) if value is not None else None

    @cached_property
    def _containers(self) -> dict[str, ContainerSpec]:
        return {container.name: container for container in self._spec.containers}

    def _key(self, kind: str, reference: Mapping[str, Any]) -> str | None:
        contents, key = self._contents(kind, reference), reference.get("key") or ""
        if contents is not None and key in contents:
            return _text(contents[key])
        if reference.get("optional") or contents is None:
            return None
        name = f"{self._spec.namespace}/{reference.get('name', '')}"
        raise ContainerConfigInvalid(f"couldn't find key {key} in {kind} {name}")

    def _contents(self, kind: str, reference: Mapping[str, Any]) -> Contents | None:
        """Return the contents of a referenced object, None if it is optional and missing."""
        ref = Ref(kind, str(reference.get("name") or ""))
        contents = self._found.get(ref)
        if contents is None and not reference.get("optional"):
            raise ContainerConfigInvalid(f"{ref} not found")
        return contents


def _usable(name: str) -> bool:
    """Return True for names that the kernel accepts; others are skipped."""
    return bool(name) and "=" not in name and name.isprintable()


def _text(value: bytes) -> str:
    if b"\0" in value:
        raise ContainerConfigInvalid("holds a NUL byte, which no environment variable can")
    return value.decode(errors="surrogateescape")
