"""Faults for which runtimes reject a readable CDI file. Pure."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

VERSION = re.compile(r"v?\d+\.\d+\.\d+", re.ASCII)
NODES = {"", "b", "c", "u", "p"}
HOOKS = {"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}


def faults_of(spec: Any) -> Iterator[str]:
    """Yield a sentence for each fault of a file that declares devices: the runtime goes on without the file."""
    version = spec.get("cdiVersion")
    if not isinstance(version, str) or not VERSION.fullmatch(version):
        yield f"cdiVersion is {version!r}"
    counts = Counter(str(device["name"]) for device in spec["devices"])
    yield from (f"the device {name} is there {count} times" for name, count in counts.items() if count > 1)
    for device in spec["devices"]:
        edits = device.get("containerEdits")
        if not isinstance(edits, Mapping) or not any(edits.values()):
            yield f"the device {device['name']} has no containerEdits"
        else:
            yield from (f"{fault}, of device {device['name']}" for fault in _edits(edits))
    if isinstance(common := spec.get("containerEdits"), Mapping):
        yield from _edits(common)


def _edits(edits: Mapping[str, Any]) -> Iterator[str]:
    for variable in _list(edits, "env"):
        if not isinstance(variable, str) or not variable.partition("=")[0] or "=" not in variable:
            yield f"env has {variable!r}, not NAME=VALUE"
    for node in _objects(edits, "deviceNodes"):
        if not node.get("path"):
            yield "a device node has no path"
        if node.get("type", "") not in NODES:
            yield f"a device node has the type {node['type']!r}"
        if set(str(node.get("permissions", ""))) - set("rwm"):
            yield f"a device node has the permissions {node['permissions']!r}"
    for mount in _objects(edits, "mounts"):
        if not mount.get("hostPath") or not mount.get("containerPath"):
            yield "a mount has no hostPath or no containerPath"
    for hook in _objects(edits, "hooks"):
        if hook.get("hookName") not in HOOKS or not hook.get("path"):
            yield f"a hook has the name {hook.get('hookName')!r} and the path {hook.get('path')!r}"


def _list(edits: Mapping[str, Any], name: str) -> Sequence[Any]:
    found = edits.get(name) or ()
    return found if isinstance(found, list) else ()


def _objects(edits: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
    return (each for each in _list(edits, name) if isinstance(each, Mapping))
