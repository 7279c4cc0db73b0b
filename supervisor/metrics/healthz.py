"""The health page: every part by its name, in the form of Kubernetes' own health pages. Pure.

Paths: `/healthz` says ok, or which parts are not; `/healthz?verbose` names all; `/healthz/PART` asks for one.
"""

from collections.abc import Mapping

ROOT = "/healthz"
KUBELETS_NAMES = {"devices": "device-plugin"}
"""Parts that kubelet's page knows under another name: there it is the server that device plugins register with."""


def answer(path: str, query: str, serving: Mapping[str, bool]) -> tuple[int, str]:
    """`serving`: each actor of this supervisor, and whether it serves."""
    parts = {KUBELETS_NAMES.get(name, name): well for name, well in serving.items()}
    wanted = path.removeprefix(ROOT).strip("/")
    if wanted and wanted not in parts:
        return 404, f"no part {wanted} here; there are {' '.join(parts)}\n"
    if wanted:
        parts = {wanted: parts[wanted]}
    if all(parts.values()):
        return 200, _list(parts, "passed") if "verbose" in query.split("&") else "ok\n"
    return 500, _list(parts, "failed")


def _list(parts: Mapping[str, bool], verdict: str) -> str:
    lines = (f"[+]{name} ok" if well else f"[-]{name} failed" for name, well in parts.items())
    return "\n".join((*lines, f"healthz check {verdict}\n"))
