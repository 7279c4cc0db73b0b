"""Which ports port-forward refuses: the plane's own, from the files and settings of its root."""

from pathlib import Path

import msgspec
import pytest

from actors.runtime.actor import plane_ports
from protocols.process.layout import layout
from protocols.process.settings import Settings
from supervisor.base.options import PlaneOptions
from supervisor.base.settings import settings_of


def settings(root: Path, **changes: object) -> Settings:
    return msgspec.structs.replace(settings_of(PlaneOptions(root=str(root), node_name="n1"), port=6443), **changes)


def write(root: Path, **files: str) -> None:
    (root / "run").mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (root / "run" / name.replace("_", ".")).write_text(text)


def test_plane_ports_of_a_plane_are_store_endpoint_and_api(tmp_path: Path) -> None:
    write(tmp_path, store_addr="127.0.0.1:1234\n")
    (tmp_path / "run" / "node-endpoint.port").write_text("2345")
    assert plane_ports(settings(tmp_path), layout(str(tmp_path))) == {1234, 2345, 6443}


def test_plane_ports_of_a_further_node_hold_the_store_of_its_plane(tmp_path: Path) -> None:
    write(tmp_path, store_addr="127.0.0.1:1234")
    assert 1234 in plane_ports(settings(tmp_path), layout(str(tmp_path)).node("n1-2"))


@pytest.mark.parametrize(("url", "closed"), [("https://10.0.0.1:6443", set()), ("https://127.0.0.1:6443", {6443})])
def test_plane_ports_of_a_joined_node_leave_another_machines_port(tmp_path: Path, url: str, closed: set[int]) -> None:
    found = plane_ports(settings(tmp_path, joined=True, api_url=url), layout(str(tmp_path)))
    assert found == closed


def test_plane_ports_with_garbage_in_a_file_go_on(tmp_path: Path) -> None:
    write(tmp_path, store_addr="nothing")
    assert plane_ports(settings(tmp_path), layout(str(tmp_path))) == {6443}
