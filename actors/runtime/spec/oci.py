"""A container as its shim executes it, in the form of an OCI runtime specification, for `crictl inspect`."""

import base64
import json
from pathlib import Path
from typing import Any

from actors.runtime.spec.users import NAMES

OCI_VERSION = "1.2.0"


def runtime_spec(file: Path) -> dict[str, Any]:
    """Return the specification of a started container from the file of its shim; empty before the start."""
    try:
        return _described(json.loads(file.read_bytes()))
    except (OSError, ValueError):
        return {}


def _described(spec: dict[str, Any]) -> dict[str, Any]:
    isolated = spec.get("isolation") or {}
    root = isolated.get("root") or {}
    return {
        "ociVersion": OCI_VERSION,
        "process": _process(spec),
        "root": {"path": root.get("image", "/"), "readonly": bool(isolated.get("readonly"))},
        "hostname": isolated.get("hostname", ""),
        "mounts": [_mount(*entry) for entry in isolated.get("mounts") or ()],
        "linux": {
            "namespaces": _namespaces(isolated),
            "cgroupsPath": next(iter(spec.get("cgroups") or ()), ""),
            "devices": [_device(entry) for entry in isolated.get("nodes") or ()],
            "maskedPaths": isolated.get("masked") or [],
            "readonlyPaths": isolated.get("sealed") or [],
        },
    }


def _process(spec: dict[str, Any]) -> dict[str, Any]:
    held = [f"CAP_{name}" for number, name in enumerate(NAMES) if number not in spec["dropped"]]
    pairs = [b"=".join(map(base64.b64decode, pair)).decode(errors="replace") for pair in spec["env"]]
    return {
        "terminal": spec["tty"],
        "user": {"uid": max(0, spec["uid"]), "gid": max(0, spec["gid"]), "additionalGids": spec["groups"]},
        "args": spec["argv"],
        "env": pairs,
        "cwd": spec["cwd"],
        "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), held),
        "oomScoreAdj": spec["oom_score"],
        "noNewPrivileges": spec["no_new_privs"],
    }


def _mount(
    source: str, target: str, readonly: bool, recursive: bool = False, noexec: bool = False, *more: bool
) -> dict[str, Any]:
    flags = (("noexec", noexec), ("nodev", any(more[1:])))
    options = ["rbind", "rro" if recursive else "ro" if readonly else "rw", *(name for name, on in flags if on)]
    return {"destination": target, "type": "bind", "source": source, "options": options}


def _namespaces(isolated: dict[str, Any]) -> list[dict[str, str]]:
    namespaces = [{"type": "mount"}] if isolated else []
    if isolated.get("processes"):
        namespaces.append({"type": "pid"})
    for field, kind in (("pid_of", "pid"), ("ipc_of", "ipc")):
        if isolated.get(field):
            namespaces.append({"type": kind, "path": f"/proc/{isolated[field]}/ns/{kind}"})
    namespaces += [{"type": "uts"}] if isolated.get("hostname") else []
    return namespaces + ([{"type": "cgroup"}] if isolated.get("views") else [])


def _device(entry: list[Any]) -> dict[str, Any]:
    path, kind, major, minor, mode, uid, gid = entry
    return {"path": path, "type": kind, "major": major, "minor": minor, "fileMode": mode, "uid": uid, "gid": gid}
