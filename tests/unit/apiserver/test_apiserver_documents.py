"""Documents of discovery and OpenAPI that a client has already are not sent again."""

from typing import Any

import msgspec
import pytest
from multidict import MultiDict

from actors.apiserver.http.endpoints.discovery import AGGREGATED
from actors.apiserver.http.endpoints.nonresource import Health, NonResource, NonResourceOptions
from actors.apiserver.table import TABLE
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
