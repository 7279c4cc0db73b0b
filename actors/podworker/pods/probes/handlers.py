"""Run the handlers of probes and lifecycle hooks: exec, httpGet, tcpSocket, grpc, sleep.

A probe is one attempt within its timeout and never raises; a hook raises HookFailed.
"""

import asyncio
import contextlib
import importlib
import os
import time
from typing import Any, Final, Literal
from urllib.parse import urljoin, urlsplit

import aiohttp
from multidict import CIMultiDict

from actors.podworker.model.dependencies import Dependencies
from actors.podworker.model.errors import HookFailed, HookTimedOut
from protocols.bus import BusError, DeadlineExceeded
from protocols.kinds import views
from protocols.kube.request_uri import uri_host
from protocols.kube.times import format_duration
from protocols.lifecycle.pods.probes import ProbeAttempt, ProbeOutcome, ProbeTarget, target
from protocols.lifecycle.pods.types import ContainerSpec, PodSpec, format_pod
from protocols.messages.cri import ANSWERED

OUTPUT = 10 * 1024
REDIRECTS = 10
REDIRECT_CODES = (301, 302, 303, 307, 308)
"""Codes whose Location Go's client follows."""
LONGEST_HEADER = 64 << 10
"""Bytes of each of an answer's headers, of which there are at most 128; kubelet takes 10 MiB of all."""
PROBE_AGENT, HOOK_AGENT = "kube-probe/1.36", "kube-lifecycle/1.36"
NO_TLS = ("wrong version number", "record layer failure")
"""OpenSSL's texts for an answer that is not TLS: before 3.2, and since, which Python may have no reason for."""
SECRET = "authorization"
"""The header that is not sent in plain text."""
SERVING = "SERVING"
HEALTH = ("UNKNOWN", SERVING, "NOT_SERVING", "SERVICE_UNKNOWN")
"""Statuses of a HealthCheckResponse by their numbers."""
_DIRECT = (("grpc.enable_http_proxy", 0),)
"""Without it gRPC sends probes to the proxy that the environment names."""
POST_START: Final = "postStart"
PRE_STOP: Final = "preStop"
POST_START_S = 600.0
"""Timeout of a postStart hook, which delays later containers."""


async def check(deps: Dependencies, handler: views.Probe, target: ProbeTarget, timeout: float) -> ProbeAttempt:
    """Try a probe once, for at most `timeout` seconds. Failures are results, not errors."""
    try:
        if handler.get("exec"):
            return await _exec(deps, handler["exec"], target, timeout)
        if handler.get("httpGet"):
            return await _http(handler["httpGet"], target, timeout)
        async with asyncio.timeout(timeout):
            if handler.get("tcpSocket"):
                return await _tcp(handler["tcpSocket"], target)
            return await _grpc(handler.get("grpc") or {}, target, timeout)
    except TimeoutError:
        return ProbeAttempt(ProbeOutcome.FAILURE, _late(handler, target, timeout))
    except (OSError, aiohttp.ClientError, ValueError) as error:
        return ProbeAttempt(ProbeOutcome.FAILURE, _unreached(error, handler, target))


def _late(handler: views.Probe, target: ProbeTarget, timeout: float) -> str:
    """Return upstream's text for a probe that had no answer in time."""
    if http := handler.get("httpGet"):
        late = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        return f'Get "{http_url(http, target)}": {late}'
    if tcp := handler.get("tcpSocket"):
        host, port = address(tcp, target)
        return f"dial tcp {uri_host(host)}:{port}: i/o timeout"
    return _rpc_fault("DEADLINE_EXCEEDED", "", "", timeout)


def _unreached(error: Exception, handler: views.Probe, target: ProbeTarget) -> str:
    """Return upstream's text for a connection that could not be made; else the error's own."""
    reason = getattr(error, "os_error", error)
    if not isinstance(reason, ConnectionError):
        return " ".join(str(error).split()) or type(error).__name__
    http = handler.get("httpGet")
    host, port = address(http or handler["tcpSocket"], target)
    text = f"dial tcp {uri_host(host)}:{port}: connect: {os.strerror(reason.errno or 0).lower()}"
    return f'Get "{http_url(http, target)}": {text}' if http else text


async def _exec(deps: Dependencies, source: views.ExecAction, target: ProbeTarget, timeout: float) -> ProbeAttempt:
    """Run a command. A runtime that does not answer says nothing about the container and is no failure."""
    command = [str(part) for part in source.get("command") or ()]
    try:
        code, output = await deps.runtime.exec_sync(target.container_id, command, int(timeout))
    except BusError as error:
        if isinstance(error, DeadlineExceeded) and ANSWERED in error.details:
            late = f'command timed out: "{" ".join(command)}" timed out after {format_duration(timeout)}'
            return ProbeAttempt(ProbeOutcome.FAILURE, late)
        if error.code == "UNKNOWN":  # the command could not be started: counts as a failure
            return ProbeAttempt(ProbeOutcome.FAILURE, str(error))
        return ProbeAttempt(ProbeOutcome.UNKNOWN, str(error))
    text = output[:OUTPUT].decode(errors="replace").strip()
    return ProbeAttempt(ProbeOutcome.SUCCESS if code == 0 else ProbeOutcome.FAILURE, text)


def address(source: views.HTTPGetAction | views.TCPSocketAction, target: ProbeTarget) -> tuple[str, int]:
    """Return host and port. Raises ValueError for an unknown named port."""
    port = source.get("port")
    if isinstance(port, str) and not port.isdecimal():
        if port not in target.ports:
            raise ValueError(f"the container has no port named {port!r}")
        return source.get("host") or target.ip, target.ports[port]
    return source.get("host") or target.ip, int(port or 0)


def http_url(source: views.HTTPGetAction, target: ProbeTarget) -> str:
    """Return the URL of an httpGet handler."""
    host, port = address(source, target)
    path = str(source.get("path") or "/")
    scheme = str(source.get("scheme") or "HTTP").lower()
    return f"{scheme}://{uri_host(host)}:{port}/{path.removeprefix('/')}"


def http_headers(source: views.HTTPGetAction, agent: str = PROBE_AGENT) -> CIMultiDict[str]:
    """Return the headers of an httpGet handler: all of the spec, and defaults; an empty Accept means none."""
    given = source.get("httpHeaders") or ()
    headers = CIMultiDict((str(header.get("name")), str(header.get("value") or "")) for header in given)
    headers.setdefault("User-Agent", agent)
    if not headers.setdefault("Accept", "*/*"):
        del headers["Accept"]
    return headers


async def fetch(
    source: views.HTTPGetAction, target: ProbeTarget, timeout: float, agent: str = PROBE_AGENT
) -> tuple[int, str]:
    """Return status code and the first OUTPUT bytes of the body; redirects to the same host are followed.

    Raises ClientPayloadError for a body that ends early or late; TimeoutError before it.
    """
    url = http_url(source, target)
    due = time.monotonic() + timeout
    connector = aiohttp.TCPConnector(ssl=False, force_close=True)
    async with aiohttp.ClientSession(
        connector=connector,
        auto_decompress=False,
        skip_auto_headers=("Accept", "Accept-Encoding"),
        max_line_size=LONGEST_HEADER,
        max_field_size=LONGEST_HEADER,
    ) as session:
        for _ in range(REDIRECTS):
            left = aiohttp.ClientTimeout(total=max(0.001, due - time.monotonic()))
            headers = http_headers(source, agent)
            async with session.get(url, headers=headers, allow_redirects=False, timeout=left) as answer:
                location = answer.headers.get("Location", "") if answer.status in REDIRECT_CODES else ""
                following = urljoin(url, location)
                if not location or urlsplit(following).hostname != urlsplit(url).hostname:
                    return answer.status, await _start(answer.content)
                url = following
    raise ValueError(f"stopped after {REDIRECTS} redirects")


async def _start(content: aiohttp.StreamReader) -> str:
    try:
        body = await content.readexactly(OUTPUT)
    except asyncio.IncompleteReadError as whole:
        body = whole.partial
    except TimeoutError:
        raise aiohttp.ClientPayloadError("timeout while reading the body") from None
    return body.decode(errors="replace")


async def _http(source: views.HTTPGetAction, target: ProbeTarget, timeout: float) -> ProbeAttempt:
    """Judge an answer as kubelet does: one whose body ends early or late has no result."""
    try:
        status, body = await fetch(source, target, timeout)
    except aiohttp.ClientPayloadError as error:
        return ProbeAttempt(ProbeOutcome.UNKNOWN, str(error))
    if 300 <= status < 400:
        return ProbeAttempt(ProbeOutcome.SUCCESS, f"Probe terminated redirects, Response body: {body}", warning=True)
    if 200 <= status < 300:
        return ProbeAttempt(ProbeOutcome.SUCCESS, body)
    return ProbeAttempt(ProbeOutcome.FAILURE, f"HTTP probe failed with statuscode: {status}")


async def _tcp(source: views.TCPSocketAction, target: ProbeTarget) -> ProbeAttempt:
    _, writer = await asyncio.open_connection(*address(source, target))
    writer.close()
    return ProbeAttempt(ProbeOutcome.SUCCESS)


async def _grpc(source: views.GRPCAction, target: ProbeTarget, timeout: float) -> ProbeAttempt:
    """Call the gRPC health service.

    The library is loaded on first use in a thread, since it takes a tenth of a second.
    """
    grpc: Any = await asyncio.to_thread(importlib.import_module, "grpc")
    host, port = target.ip, int(source.get("port") or 0)
    name = str(source.get("service") or "").encode()
    size = bytes((len(name) & 0x7F | 0x80, len(name) >> 7)) if len(name) > 127 else bytes((len(name),))
    request = b"\x0a" + size + name if name else b""
    place = f"{uri_host(host)}:{port}"
    async with grpc.aio.insecure_channel(place, options=_DIRECT) as channel:
        call = channel.unary_unary("/grpc.health.v1.Health/Check")
        try:
            health = _health(await call(request, timeout=timeout))
        except grpc.aio.AioRpcError as error:
            return ProbeAttempt(ProbeOutcome.FAILURE, _rpc_fault(error.code().name, error.details(), place, timeout))
    if health == SERVING:
        return ProbeAttempt(ProbeOutcome.SUCCESS)
    return ProbeAttempt(ProbeOutcome.FAILURE, f'service unhealthy (responded with "{health}")')


def _health(answer: bytes) -> str:
    """Return the status of a HealthCheckResponse, whose only field it is."""
    number = answer[1] if answer[:1] == b"\x08" and len(answer) > 1 else 0
    return HEALTH[number] if number < len(HEALTH) else str(number)


def _rpc_fault(code: str, details: str, place: str, timeout: float) -> str:
    """Return upstream's text for a health call that failed."""
    if code == "DEADLINE_EXCEEDED":
        return f"timeout: health rpc did not complete within {format_duration(timeout)}"
    if code == "UNAVAILABLE":
        return f'error: failed to connect service "{place}": {details}'
    if code == "UNIMPLEMENTED":
        return f"error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {details}"
    return f"error: health rpc probe failed: {code}: {details}"


def hook_of(container: ContainerSpec | None, kind: Literal["postStart", "preStop"]) -> views.LifecycleHandler | None:
    """Return the hook, None if it has no handler."""
    hook = (container.raw.get("lifecycle") or {}).get(kind) or {} if container else {}
    return hook if any(hook.values()) else None


def hook_failure(spec: PodSpec, container: ContainerSpec, hook: views.LifecycleHandler, error: Exception) -> str:
    """Return the message of a failed hook for the container's status, with upstream's words."""
    where = f'for Container "{container.name}" in Pod "{format_pod(spec)}" failed - error: {error}'
    if hook.get("exec"):
        return f"Exec lifecycle hook ([{' '.join(map(str, hook['exec'].get('command') or ()))}]) {where}"
    if hook.get("httpGet"):
        return f"HTTP lifecycle hook ({hook['httpGet'].get('path') or ''}) {where}"
    return f"Sleep lifecycle hook {where}" if hook.get("sleep") else f"Cannot run handler: {error}"


async def run_hook(
    deps: Dependencies,
    spec: PodSpec,
    container: ContainerSpec,
    hook: views.LifecycleHandler,
    container_id: str,
    ip: str,
    timeout: float,
) -> None:
    """Raises HookFailed."""
    try:
        async with asyncio.timeout(timeout):
            if hook.get("exec"):
                await _run_command(deps, hook["exec"], container_id, timeout)
            elif hook.get("httpGet"):
                with contextlib.suppress(aiohttp.ClientPayloadError):
                    await _request(deps, spec, hook["httpGet"], target(container, container_id, ip), timeout)
            elif sleep := hook.get("sleep"):
                await asyncio.sleep(float(sleep.get("seconds") or 0))
            else:  # the API takes tcpSocket, which no kubelet runs
                raise HookFailed(f"invalid handler: {', '.join(hook)}")
    except TimeoutError:
        raise HookTimedOut(f"did not end within {timeout:g} s") from None
    except (BusError, OSError, aiohttp.ClientError, ValueError) as error:
        raise HookFailed(" ".join(str(error).split()) or type(error).__name__) from None


async def _request(
    deps: Dependencies, spec: PodSpec, source: views.HTTPGetAction, target: ProbeTarget, timeout: float
) -> None:
    """Call an HTTP hook. If the server of an HTTPS one speaks plain HTTP, that is used, as upstream."""
    try:
        await fetch(source, target, timeout, HOOK_AGENT)
    except aiohttp.ClientConnectorSSLError as error:
        if not any(text in str(error.os_error) for text in NO_TLS):
            raise
        headers = [header for header in source.get("httpHeaders") or () if header.get("name", "").lower() != SECRET]
        plain: views.HTTPGetAction = {**source, "scheme": "HTTP", "httpHeaders": headers}
        try:
            with contextlib.suppress(aiohttp.ClientPayloadError):
                await fetch(plain, target, timeout, HOOK_AGENT)
        except (OSError, aiohttp.ClientError):
            raise error from None
        where = "{}:{}".format(*address(source, target))
        text = f"request to HTTPS lifecycle hook {where} got HTTP response, retry with HTTP succeeded"
        deps.recorder.pod(spec, "Warning", "LifecycleHTTPFallback", text)


async def _run_command(deps: Dependencies, action: views.ExecAction, container_id: str, timeout: float) -> None:
    command = [str(part) for part in action.get("command") or ()]
    code, output = await deps.runtime.exec_sync(container_id, command, max(1, int(timeout)))
    if code != 0:
        text = output[:1024].decode(errors="replace").strip()
        raise HookFailed(f"command {' '.join(command)!r} exited with {code}: {text}")
