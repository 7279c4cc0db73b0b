"""--store and the flags for etcd: what they become, and what is refused in one line."""

from pathlib import Path

import pytest

from protocols.etcd.options import store_options
from supervisor.base.errors import UsageError
from supervisor.base.options import PlaneOptions
from supervisor.base.settings import etcd_files, settings_of, stores

SOCKET = "/r/run/store.sock"


def plane(*given: str, **changes: str) -> PlaneOptions:
    return PlaneOptions(root="/r", node_name="n1", store=given, **changes)  # type: ignore[arg-type] # only texts here


def test_stores_one_has_all_resources() -> None:
    (main,) = stores(["etcd://a:2379,[::1]:2379"], SOCKET)
    assert main.endpoints == ("a:2379", "[::1]:2379")
    assert not main.resources


def test_stores_split_resources_share_a_store() -> None:
    given = ("etcd://m:1", "events=etcd://e:1", "/configmaps,coordination.k8s.io/leases=etcd://e:1", "pods=sqlite")
    settings = settings_of(plane(*given), 1)
    assert [store.endpoints for store in settings.stores] == [("m:1",), ("e:1",), (f"unix:{SOCKET}",)]
    names = ("nodes", "events", "configmaps", "leases.coordination.k8s.io", "pods")
    assert [settings.store_of(name) for name in names] == [0, 1, 1, 1, 2]
    assert settings.runs_store
    assert not settings.store_embedded


def test_stores_without_main_use_embedded() -> None:
    settings = settings_of(plane("events=etcd://e:1"), 1)
    assert settings.store_embedded
    assert settings.store_of("events") == 1


def test_leader_election_auto_is_on_with_etcd() -> None:
    assert not settings_of(plane("sqlite"), 1).leader_elect
    assert settings_of(plane("etcd://a:1"), 1).leader_elect
    assert not settings_of(plane("etcd://a:1", leader_elect="false"), 1).leader_elect
    assert settings_of(plane("sqlite", leader_elect="true"), 1).leader_elect


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["etcd://a:1", "etcd://b:1"], "more than once for everything"),
        (["things=etcd://a:1"], "no resource is called 'things'"),
        (["leases=etcd://a:1"], "coordination.k8s.io/leases"),
        (["events=etcd://a:1", "events=etcd://b:1"], "names events more than once"),
        (["events=postgres://a"], "is no store"),
        (["etcd://a:99999"], "no HOST:PORT"),
        (["etcd://"], "no HOST:PORT"),
    ],
)
def test_stores_wrong_are_refused(given: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        stores(given, SOCKET)
    assert "\n" not in str(caught.value)


def test_etcd_files_are_for_every_etcd(tmp_path: Path) -> None:
    files = {}
    for name in ("cafile", "certfile", "keyfile"):
        files[f"etcd_{name}"] = str(tmp_path / name)
        (tmp_path / name).write_text("-----BEGIN X-----\n")
    settings = settings_of(plane("etcd://a:1", "events=sqlite", **files), 1)
    etcd, embedded = store_options(settings, settings.layout)
    assert (etcd.ca, etcd.cert, etcd.key) == tuple(tmp_path / name for name in ("cafile", "certfile", "keyfile"))
    assert embedded.ca is None


def test_etcd_files_wrong_are_refused(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("-----BEGIN X-----\n")
    (tmp_path / "junk").write_text("junk")
    ca = str(tmp_path / "ca")
    for given, says in (
        ((ca, "", "", False), "no --store is an etcd"),
        ((ca, ca, "", True), "go together"),
        (("", ca, ca, True), "needs --etcd-cafile"),
        ((str(tmp_path / "none"), "", "", True), "No such file"),
        ((str(tmp_path / "junk"), "", "", True), "no PEM file"),
    ):
        with pytest.raises(UsageError, match=says):
            etcd_files(*given)
