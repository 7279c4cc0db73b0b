"""Health checks of the API server."""

import logging

import pytest
from multidict import MultiDict

from actors.apiserver.http.endpoints.nonresource import Health


async def away() -> str:
    return "10.0.0.5:2379 is away"


async def well() -> str:
    return ""


HEALTH = {"etcd": away, "etcd-override-0": away, "replicas": well}


async def test_health_leaves_out_each_excluded_part() -> None:
    health = Health(HEALTH)
    assert (await health.reply("/readyz", MultiDict())).status == 500
    assert (await health.reply("/readyz", MultiDict(exclude="etcd"))).status == 500
    both = MultiDict([("exclude", "etcd"), ("exclude", "etcd-override-0")])
    assert (await health.reply("/readyz", both)).body == b"ok"


async def test_health_of_all_withholds_the_reasons_which_anybody_may_read(caplog: pytest.LogCaptureFixture) -> None:
    health = Health(HEALTH)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            reply = await health.reply("/readyz", MultiDict([("exclude", "etcd"), ("exclude", "x")]))
    assert reply.body.decode().splitlines() == [
        "[+]ping ok",
        "[+]etcd excluded: ok",
        "[-]etcd-override-0 failed: reason withheld",
        "[+]replicas ok",
        'warn: some health checks cannot be excluded: no matches for "x"',
        "readyz check failed",
    ]
    assert [record.message.partition("reason=")[2] for record in caplog.records] == ["10.0.0.5:2379 is away"]


async def test_health_of_one_part_has_the_reason() -> None:
    reply = await Health(HEALTH).reply("/readyz/etcd", MultiDict())
    assert (reply.status, reply.body) == (500, b"internal server error: 10.0.0.5:2379 is away\n")
    assert (await Health(HEALTH).reply("/readyz/replicas", MultiDict(verbose=""))).body == b"ok"
