"""events.k8s.io/v1 and v1 are two faces of the same stored events."""

import json
from typing import Any

from protocols.wire import etcd_pb2 as pb
from tests.support.apiserver_plane import Plane
from tests.support.shared_fixtures import apiserver_on_each_store
from tests.support.store_lab import Api

NEW = "/apis/events.k8s.io/v1/namespaces/default/events"
CORE = "/api/v1/namespaces/default/events"
EVENT: dict[str, Any] = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": {"name": "told"},
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "regarding": {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": "default"},
    "note": "so it was",
    "reportingController": "example.com/teller",
    "reportingInstance": "teller-0",
    "action": "Tell",
    "reason": "Told",
    "type": "Normal",
}

plane = apiserver_on_each_store


def test_both_groups_show_one_event_under_their_own_names(plane: Plane) -> None:
    plane.kubectl("create", "-f", "-", stdin=json.dumps(EVENT))
    core = json.loads(plane.kubectl("get", "events", "told", "-o", "json"))
    assert (core["apiVersion"], core["message"], core["involvedObject"]["name"]) == ("v1", "so it was", "p")
    assert core["reportingComponent"] == "example.com/teller"
    new = json.loads(plane.kubectl("get", "events.events.k8s.io", "told", "-o", "json"))
    assert (new["apiVersion"], new["note"], new["regarding"]["name"]) == ("events.k8s.io/v1", "so it was", "p")
    assert new["metadata"]["uid"] == core["metadata"]["uid"]
    assert new["metadata"]["resourceVersion"] == core["metadata"]["resourceVersion"]
    assert "so it was" in plane.kubectl("events", "--for", "pod/p")
    for name in ("events", "events.events.k8s.io"):
        assert plane.kubectl("get", name).split()[-2:] == ["it", "was"]
    selected = plane.kubectl("get", "events.events.k8s.io", "--field-selector", "regarding.name=p", "-o", "name")
    assert selected == "event.events.k8s.io/told\n"
    assert "note\t<string>" in plane.kubectl("explain", "--api-version=events.k8s.io/v1", "events")


async def test_a_series_goes_on_and_nothing_else_changes(plane: Plane) -> None:
    async with plane.client() as session:
        made = await session.post(NEW, json={**EVENT, "metadata": {"name": "series"}})
        assert made.status == 201
        series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}}
        merge = {"Content-Type": "application/merge-patch+json"}
        async with session.patch(f"{NEW}/series", data=json.dumps(series), headers=merge) as patched:
            assert (patched.status, (await patched.json())["series"]["count"]) == (200, 2)
        async with session.get(f"{CORE}/series") as seen:
            assert (await seen.json())["series"]["count"] == 2
        refused = await session.patch(f"{NEW}/series", data='{"note":"else"}', headers=merge)
        assert (refused.status, (await refused.json())["details"]["causes"][0]["field"]) == (422, "message")


async def test_what_the_group_requires(plane: Plane) -> None:
    async with plane.client() as session:
        bad = {**EVENT, "metadata": {"name": "bad"}, "eventTime": None, "type": "Odd", "deprecatedCount": 1}
        bad.pop("action")
        async with session.post(NEW, json=bad) as refused:
            assert refused.status == 422
            fields = {cause["field"] for cause in (await refused.json())["details"]["causes"]}
            assert fields == {"eventTime", "count", "type"}


async def test_watches_of_both_groups_see_a_write_through_either(plane: Plane) -> None:
    async with plane.client() as session:
        async with session.get(NEW) as listed:
            version = (await listed.json())["metadata"]["resourceVersion"]
        query = f"?watch=true&resourceVersion={version}&timeoutSeconds=60"
        async with session.get(NEW + query) as new, session.get(CORE + query) as core:
            old = {"involvedObject": {"kind": "Pod", "namespace": "default"}, "message": "old", "reason": "R"}
            await session.post(CORE, json={"metadata": {"name": "old"}, **old})
            for stream, field in ((new, "note"), (core, "message")):
                event = json.loads(await stream.content.readline())
                assert (event["type"], event["object"][field]) == ("ADDED", "old")


async def test_an_event_lives_an_hour_and_goes_with_its_lease(plane: Plane) -> None:
    """The lease is ended here as its time would end it."""
    (target,) = plane.settings.store_endpoints

    async with plane.client() as session:
        made = await session.post(NEW, json={**EVENT, "metadata": {"name": "brief"}})
        assert made.status == 201
        version = (await made.json())["metadata"]["resourceVersion"]
        store = Api(target)
        (kept,) = (await store.range(pb.RangeRequest(key=b"/registry/events/default/brief"))).kvs
        left = await store.time_to_live(pb.LeaseTimeToLiveRequest(ID=kept.lease))
        assert 3600 - 120 < left.TTL <= left.grantedTTL <= 3600 + 60
        query = f"?watch=true&resourceVersion={version}&fieldSelector=metadata.name=brief&timeoutSeconds=60"
        async with session.get(CORE + query) as watch:
            await store.revoke(pb.LeaseRevokeRequest(ID=kept.lease))
            event = json.loads(await watch.content.readline())
            assert (event["type"], event["object"]["message"]) == ("DELETED", "so it was")
            assert int(event["object"]["metadata"]["resourceVersion"]) > int(version)
        async with session.get(f"{CORE}/brief") as gone:
            assert gone.status == 404
        await store.close()
