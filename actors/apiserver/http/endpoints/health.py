"""/healthz, /livez, /readyz: plain text, with a line for each part on demand."""

from collections.abc import Awaitable, Callable, Mapping

from actors.apiserver.http.connection.responses import Reply
from protocols.errors import NodeplaneError

Check = Callable[[], Awaitable[str]]
"""Empty text = well; otherwise why not."""
TEXT = "text/plain; charset=utf-8"


class Health:
    """`parts` are asked for readiness only: a process whose store is away is alive, and must not be restarted."""

    def __init__(self, parts: Mapping[str, Check]) -> None:
        self._parts = parts

    async def reply(self, path: str, query: Mapping[str, str]) -> Reply:
        root, _, part = path.strip("/").partition("/")
        if part and part not in ("ping", *self._parts):
            return Reply(b"404 page not found\n", 404, TEXT)
        names = [part] if part else ["ping", *(self._parts if root == "readyz" else ())]
        faults = {name: await self._fault(name) for name in names if name not in query.get("exclude", "").split(",")}
        failed = any(faults.values())
        if not failed and "verbose" not in query:
            return Reply(b"ok", 200, TEXT)
        lines = [f"[-]{name} failed: {why}" if why else f"[+]{name} ok" for name, why in faults.items()]
        lines.append(f"{root} check {'failed' if failed else 'passed'}")
        return Reply("\n".join(lines).encode() + b"\n", 500 if failed else 200, TEXT)

    async def _fault(self, name: str) -> str:
        if name == "ping":
            return ""
        try:
            return await self._parts[name]()
        except (NodeplaneError, TimeoutError) as error:
            return str(error) or type(error).__name__
