"""Health checks of the API server."""

from multidict import MultiDict

from actors.apiserver.http.endpoints.nonresource import Health


async def away() -> str:
    return "away"


async def test_health_leaves_out_each_excluded_part() -> None:
    health = Health({"etcd": away, "etcd-override-0": away})
    assert (await health.reply("/readyz", MultiDict())).status == 500
    assert (await health.reply("/readyz", MultiDict(exclude="etcd"))).status == 500
    both = MultiDict([("exclude", "etcd"), ("exclude", "etcd-override-0")])
    assert (await health.reply("/readyz", both)).body == b"ok"
