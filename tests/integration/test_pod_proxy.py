"""pods/NAME/proxy and services/NAME/proxy: the API server passes requests to a port of a pod, and of nothing else."""

import contextlib
import json
from collections.abc import AsyncIterator
from functools import partial
from itertools import product
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from protocols.kube.meta import SERVICE_NAME_LABEL, SLICE_MANAGER, SLICE_MANAGER_LABEL
from tests.support.apiserver_plane import Plane
from tests.support.waiting import until_async

NS = "/api/v1/namespaces/default"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
PATCH = {"Content-Type": "application/merge-patch+json"}
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
FORWARDED = ("X-Kept", "Authorization", "Cookie", "X-Remote-User", "X-Forwarded-Uri", "X-Forwarded-For")


async def _echo(request: web.Request) -> web.StreamResponse:
    if request.path == "/moved":
        return web.Response(status=302, headers={"Location": "/there?x=1", "Set-Cookie": "a=b"})
    if request.path == "/away":
        return web.Response(status=302, headers={"Location": "http://192.0.2.1/"})
    body = (await request.read()).decode()
    seen = {name: request.headers[name] for name in FORWARDED if name in request.headers}
    return web.json_response([request.method, request.path_qs, body, seen], status=203)


@contextlib.asynccontextmanager
async def backend() -> AsyncIterator[int]:
    """A server as a pod would be one; yields its port."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", _echo)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def put(session: aiohttp.ClientSession, plural: str, name: str, **body: Any) -> None:
    made = {"apiVersion": "v1", "metadata": {"name": name}, **body}
    async with session.delete(f"{NS}/{plural}/{name}?gracePeriodSeconds=0"):
        pass
    async with session.post(f"{NS}/{plural}", json=made) as answer:
        assert answer.status == 201, await answer.text()


async def put_pod(session: aiohttp.ClientSession, name: str, address: str, port: int) -> None:
    container = {"name": "a", "image": "x", "ports": [{"containerPort": port}]}
    await put(session, "pods", name, kind="Pod", spec={"containers": [container]})
    status = json.dumps({"status": {"podIP": address, "podIPs": [{"ip": address}]}})
    async with session.patch(f"{NS}/pods/{name}/status", data=status, headers=PATCH) as answer:
        assert answer.status == 200, await answer.text()


async def message(answer: aiohttp.ClientResponse) -> str:
    return str((await answer.json())["message"])


async def test_pod_proxy_passes_method_path_query_and_body_without_credentials(plane: Plane) -> None:
    async with backend() as port, plane.client() as session:
        await put_pod(session, "proxy", "127.0.0.1", port)
        given = {"X-Kept": "z", "Cookie": "c=d", "X-Remote-User": "admin", "X-Forwarded-For": "192.0.2.1"}
        for name in ("proxy", f"proxy:{port}", f"http:proxy:{port}"):
            for method in METHODS:
                path = f"{NS}/pods/{name}/proxy/a/proxy%2Fb"
                waits = method == "PUT"  # for the server's 100 Continue
                url = URL(f"{path}?x=%2F", encoded=True)
                async with session.request(method, url, data=b"body", headers=given, expect100=waits) as answer:
                    assert answer.status == 203, await answer.text()
                    seen = {"X-Kept": "z", "X-Forwarded-Uri": path, "X-Forwarded-For": "127.0.0.1"}
                    assert await answer.json() == [method, "/a/proxy%2Fb?x=%2F", "body", seen]
            async with session.head(f"{NS}/pods/{name}/proxy/a") as answer:
                assert (answer.status, await answer.read()) == (203, b"")
        async with session.get(f"{NS}/pods/proxy/proxy?x=1", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (301, f"{NS}/pods/proxy/proxy/?x=1")
        async with session.post(f"{NS}/pods/proxy/proxy") as answer:
            assert (await answer.json())[1] == "/"


async def test_service_proxy_leads_to_a_pod_of_its_endpoint_slices(plane: Plane) -> None:
    async with backend() as port, plane.client() as session:
        await put_pod(session, "behind", "127.0.0.1", port)
        await put(session, "services", "sliced", kind="Service", spec={"ports": [{"name": "web", "port": 80}]})
        labels = {SERVICE_NAME_LABEL: "sliced", SLICE_MANAGER_LABEL: SLICE_MANAGER}
        endpoint_slice = {
            "metadata": {"name": "sliced", "labels": labels},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["127.0.0.1"], "targetRef": {"kind": "Pod", "name": "behind"}}],
            "ports": [{"name": "web", "port": port}],
        }
        async with session.post(SLICES, json=endpoint_slice) as answer:
            assert answer.status == 201, await answer.text()

        async def seen(name: str, method: str) -> Any:
            async with session.request(method, f"{NS}/services/{name}/proxy/a") as answer:
                return answer.status == 203 and await answer.json()

        for name, method in product(("sliced:web", "sliced:80"), METHODS):
            assert (await until_async(f"{name} leads to its pod", partial(seen, name, method)))[:2] == [method, "/a"]


async def test_redirects_of_a_pod_stay_below_the_proxy_and_its_cookies_behind_it(plane: Plane) -> None:
    async with backend() as port, plane.client() as session:
        await put_pod(session, "p", "127.0.0.1", port)
        async with session.get(f"{NS}/pods/p/proxy/moved", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (302, f"{NS}/pods/p/proxy/there?x=1")
            assert "Set-Cookie" not in answer.headers
        async with session.get(f"{NS}/pods/p/proxy/away", allow_redirects=False) as answer:
            assert answer.status == 503
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"}
        async with session.get(f"{NS}/pods/p/proxy/", headers=upgrade) as answer:
            assert (answer.status, "does not upgrade" in await message(answer)) == (400, True)


@pytest.mark.parametrize("address", ["169.254.169.254", "0.0.0.0", "224.0.0.1", "fe80::1", ""])
async def test_pod_address_that_no_pod_has_is_not_allowed(plane: Plane, address: str) -> None:
    async with plane.client() as session:
        await put_pod(session, "p", address or "192.0.2.1", 80)
        if not address:
            await put(session, "pods", "p", kind="Pod", spec={"containers": [{"name": "a", "image": "x"}]})
        async with session.get(f"{NS}/pods/p/proxy/") as answer:
            assert (answer.status, await message(answer)) == (400, "address not allowed")


async def test_faulty_names_and_absent_backends_have_upstreams_texts(plane: Plane) -> None:
    async with plane.client() as session:
        await put_pod(session, "p", "127.0.0.1", 1)
        await put(session, "services", "s", kind="Service", spec={"ports": [{"port": 80}]})
        async with session.get(f"{NS}/pods/none/proxy", allow_redirects=False) as answer:
            assert answer.status == 404
        for path, code, text in (
            ("pods/ftp:p:1", 400, 'invalid pod request "ftp:p:1"'),
            ("pods/p:http", 400, 'invalid pod request "p:http"'),
            ("pods/a:b:c:d", 400, 'invalid pod request "a:b:c:d"'),
            ("pods/none", 404, 'pods "none" not found'),
            ("pods/p:1", 503, "error trying to reach service: "),
            ("services/none", 404, 'services "none" not found'),
            ("services/s", 503, 'no endpoints available for service "s"'),
            ("services/s:82", 503, 'no service port 82 found for service "s"'),
        ):
            async with session.get(f"{NS}/{path}/proxy/") as answer:
                assert answer.status == code, path
                assert text in await message(answer)


async def test_proxies_need_a_right_of_their_own(plane: Plane) -> None:
    async with plane.client("scheduler") as session:
        for plural in ("pods", "services"):
            async with session.get(f"{NS}/{plural}/p/proxy/") as answer:
                assert answer.status == 403
                assert f'cannot get resource "{plural}/proxy"' in await message(answer)
