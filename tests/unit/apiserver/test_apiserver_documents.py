"""Documents of discovery and OpenAPI that a client has already are not sent again."""

import asyncio
import threading
import time
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from msgspec.structs import replace
from multidict import MultiDict

from actors.apiserver.http.endpoints import nonresource
from actors.apiserver.http.endpoints.discovery import AGGREGATED
from actors.apiserver.http.endpoints.nonresource import Health, NonResource, NonResourceOptions
from actors.apiserver.table import TABLE
from protocols.kinds.openapi.documents import Document, OpenApi
from protocols.kinds.openapi.v2 import MEDIA, definitions
from protocols.kinds.served.row import Table

NOTHING: Any = None


async def test_root_lists_groups_versions_and_health_checks() -> None:
    health = Health({"etcd": NOTHING})
    served = NonResource(NonResourceOptions(Table(TABLE.built_in), health, NOTHING, NOTHING, "localhost:6443"))
    paths = msgspec.json.decode((await served.reply("/", MultiDict(), {})).body)["paths"]
    assert {"/apis/apps", "/apis/apps/v1", "/healthz/ping", "/readyz/etcd", "/openid/v1/jwks"} <= set(paths)
    assert paths == sorted(set(paths))


@pytest.mark.parametrize("path", ["/api", "/apis", "/openapi/v2", "/openapi/v3", "/openapi/v3/apis/apps/v1"])
async def test_known_document_is_not_sent_again(path: str) -> None:
    served = NonResource(NonResourceOptions(Table(TABLE.built_in), NOTHING, NOTHING, NOTHING, "localhost:6443"))
    accept = {"Accept": AGGREGATED}
    whole = await served.reply(path, MultiDict(), accept)
    tag = whole.headers["ETag"]
    known = await served.reply(path, MultiDict(), {**accept, "If-None-Match": f'"other", W/{tag}'})
    changed = await served.reply(path, MultiDict(), {**accept, "If-None-Match": '"other"'})
    assert [(reply.status, reply.headers["ETag"]) for reply in (whole, known, changed)] == [
        (200, tag),
        (304, tag),
        (200, tag),
    ]
    assert (known.body, changed.body) == (b"", whole.body)


async def test_discovery_of_many_groups_is_linear_and_follows_definitions() -> None:
    """Each version was looked for among all resources: 0.3 s for each kubectl with 2,000 definitions."""
    table = Table(TABLE.built_in)
    served = NonResource(NonResourceOptions(table, NOTHING, NOTHING, NOTHING, "localhost:6443"))
    accept, maps = {"Accept": AGGREGATED}, TABLE.of("configmaps")
    before = await served.reply("/apis", MultiDict(), accept)
    table.replace([replace(maps, group=f"g{number}.example.com") for number in range(8_000)])
    began = time.process_time()
    after = await served.reply("/apis", MultiDict(), accept)
    assert time.process_time() - began < 2
    groups = [len(msgspec.json.decode(reply.body)["items"]) for reply in (before, after)]
    assert groups[1] - groups[0] == 8_000


async def test_documents_of_openapi_are_made_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of one definition with 9,000 versions took 5 s of the loop: then each request for them was refused."""
    turned, make = threading.Event(), OpenApi.made

    def slow(self: OpenApi) -> dict[str, Document]:
        assert turned.wait(10)
        return make(self)

    monkeypatch.setattr(OpenApi, "made", slow)
    for path in ("/openapi/v3", "/openapi/v3/apis/apps/v1", "/openapi/v2"):
        served = NonResource(NonResourceOptions(Table(TABLE.built_in), NOTHING, NOTHING, NOTHING, "localhost:6443"))
        turned.clear()
        asyncio.get_running_loop().call_later(0.05, turned.set)
        assert (await served.reply(path, MultiDict(), {})).status == 200


async def test_clients_that_ask_for_documents_at_once_get_those_of_one_thread() -> None:
    """Of 40 requests of one user 23 got 429, although the documents were made."""
    table = Table(TABLE.built_in)
    served = NonResource(NonResourceOptions(table, NOTHING, NOTHING, NOTHING, "localhost:6443"))
    for version in ("v7", "v8"):
        table.replace([replace(TABLE.of("configmaps"), group="example.com", version=version)])
        for path in ("/openapi/v2", "/openapi/v3", f"/openapi/v3/apis/example.com/{version}"):
            replies = await asyncio.gather(*(served.reply(path, MultiDict(), {}) for _ in range(40)))
            assert {reply.status for reply in replies} == {200}
            assert path == "/openapi/v2" or b"example.com/" + version.encode() in replies[0].body


async def test_openapi_v2_is_made_once_in_each_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asked for both in turns had it made each time, on 16 connections in as many threads."""
    makes = Mock(side_effect=definitions)
    monkeypatch.setattr(nonresource, "definitions", makes)
    served = NonResource(NonResourceOptions(Table(TABLE.built_in), NOTHING, NOTHING, NOTHING, "localhost:6443"))
    for _ in range(2):
        for media in (MEDIA, "application/json"):
            assert (await served.reply("/openapi/v2", MultiDict(), {"Accept": media})).media_type == media
    assert makes.call_count == 2
