"""Nodes that join: passes, what is asked before the start, the settings of more nodes on one machine."""

import base64
import socket
import ssl
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
import yaml

from actors.simulator.engine.playback import listen
from protocols.errors import SettingsInvalid
from protocols.messages.podworker import INSTANCE, serving_name
from protocols.process.layout import SOCKET_PATH_LIMIT, layout
from protocols.process.settings import Settings
from supervisor.base.errors import UsageError
from supervisor.base.groups import NODE, NODE_GRACE_S, PlaneShape, check_nodes, children
from supervisor.base.options import PlaneOptions
from supervisor.base.settings import settings_of
from supervisor.base.values import node_ip
from supervisor.cli.operate.node_config import api_server, checked_name, only_here
from supervisor.pki import node_config
from supervisor.pki.node_config import NodeConfig, NodeConfigInvalid, Pair
from supervisor.plane import node_group, start
from supervisor.plane.node_group import local_settings
from supervisor.plane.supervisor import STOP_CONTAINERS_S
from supervisor.startup import preflight
from supervisor.startup.join import address_towards, joined_settings, write_node_files
from supervisor.startup.prepare import joins_other_plane, prepare

PEM = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def made(node: str = "n2", server: str = "https://10.0.0.1:6443", days: float = 700) -> NodeConfig:
    pair, end = Pair(PEM, PEM), float(int(time.time() + days * 86400))
    name = serving_name(node)
    return NodeConfig(server=server, node=node, ca=PEM, client=pair, serving=pair, serving_name=name, not_after=end)


def settings(root: Path, **flags: object) -> Settings:
    return settings_of(msgspec.convert({"root": str(root), "node_name": "n1", **flags}, PlaneOptions), port=6443)


@pytest.mark.parametrize("node", ["n2", "123", "true", "a.b-c"])
def test_node_config_written_is_read_back(node: str) -> None:
    config = made(node)
    text = node_config.write(config)
    assert node_config.read(text.encode(), "f") == config
    assert yaml.safe_load(text)["users"][0]["name"] == f"system:node:{node}"


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("system:node:n2", "admin", "f is of 'admin', which is no node"),
        ("https://", "http://", "no https://HOST:PORT"),
        ("serving-key-data", "other", "f has no serving-key-data"),
        ("certificate-authority-data: LS0", "certificate-authority-data: ?", "not base64"),
        ("client-key-data: LS0t", "client-key-data: AAAA", "no PEM inside"),
        ("not-after: ", "not-after: x", "f is damaged"),
        ("current-context: nodeplane", "current-context: other", "no kubeconfig with a current context"),
        ("apiVersion", "{[", "no kubeconfig with a current context"),
    ],
)
def test_node_config_damaged_tells_remedy(old: str, new: str, complaint: str) -> None:
    text = node_config.write(made()).replace(old, new)
    with pytest.raises(NodeConfigInvalid, match="node-config") as caught:
        node_config.read(text.encode(), "f")
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"[1, 2]", b"x", b"contexts: 5\ncurrent-context: a", b"- " * 50])
def test_node_config_other_file_is_refused(data: bytes) -> None:
    with pytest.raises(NodeConfigInvalid):
        node_config.read(data, "f")


def test_node_config_of_earlier_version_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\n".join(line for line in node_config.write(made()).splitlines() if "serving-name" not in line)
    former = node_config.read(text.encode(), "f")
    assert former.serving_name == ""
    monkeypatch.setattr(preflight, "_tls", lambda *_: None)
    monkeypatch.setattr(preflight, "_ask", lambda *_: "")
    assert "also serves for localhost; make one with `nodeplane node-config" in preflight.check(former, "")
    assert preflight.check(made(), "") == ""


def test_node_config_expired_is_refused() -> None:
    with pytest.raises(NodeConfigInvalid, match=r"the certificate of node n2 ended on \d{4}.*node-config n2"):
        preflight.check(made(days=-1), "")


def test_join_api_away_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "_tls", lambda *_: None)

    def away(*_: object) -> str:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(preflight, "_ask", away)
    assert preflight.check(made(), "") == (
        "the API at https://10.0.0.1:6443 does not answer (Connection refused); the node waits for it"
    )


def test_join_api_that_ends_the_handshake_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a load balancer answers whose servers are away."""
    monkeypatch.setattr(preflight, "_tls", lambda *_: ssl.create_default_context())
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            with server.accept()[0] as client:
                client.recv(1 << 16)

        thread = threading.Thread(target=hang_up)
        thread.start()
        what = msgspec.structs.replace(made(), server=f"https://127.0.0.1:{server.getsockname()[1]}")
        assert preflight.check(what, "").endswith("; the node waits for it")
        thread.join()


@pytest.mark.parametrize(
    ("theirs", "age", "taken"),
    [("other", 3, True), ("mine", 3, False), ("", 3, True), ("other", 41, False), ("other", -5, True)],
)
def test_join_name_renewed_by_other_is_taken(theirs: str, age: float, taken: bool) -> None:
    addresses = [{"type": "InternalIP", "address": "10.0.0.9"}]
    metadata = {"uid": "u", "annotations": {INSTANCE: theirs} if theirs else {}}
    node = {"metadata": metadata, "status": {"addresses": addresses}}
    lease = {"spec": {"renewTime": (NOW - timedelta(seconds=age)).isoformat().replace("+00:00", "Z")}}
    said = preflight.in_use(node, lease, "mine", NOW)
    assert said.startswith("a node at 10.0.0.9 renewed") if taken else said == ""


def test_join_name_never_renewed_is_free() -> None:
    assert preflight.in_use({}, {}, "", NOW) == ""
    assert preflight.in_use({"metadata": {"uid": "u"}}, {"spec": {"renewTime": "soon"}}, "", NOW) == ""


@pytest.mark.parametrize(
    "body", [{"status": "Success"}, {"status": {"addresses": [{"type": "InternalIP"}]}, "metadata": {"uid": "u"}}]
)
def test_join_api_that_answers_otherwise_waits(monkeypatch: pytest.MonkeyPatch, body: dict[str, Any]) -> None:
    monkeypatch.setattr(preflight, "_tls", lambda *_: None)
    answered = {**body, "spec": {"renewTime": NOW.isoformat()}}
    monkeypatch.setattr(preflight, "_call", lambda *_: preflight._ApiAnswer(200, answered, NOW))
    assert preflight.check(made(), "") == (
        "the API at https://10.0.0.1:6443 does not answer as Kubernetes does; the node waits for it"
    )


def test_root_with_node_config_is_a_node(root: Path) -> None:
    where, options = layout(str(root)), PlaneOptions(root=str(root))
    assert not joins_other_plane(options)
    write_node_files(where, made())
    assert joins_other_plane(options)
    for path in (
        where.node_kubeconfig,
        where.kubeconfig,
        *(where.pki / f"{user}.key" for user in ("podworker", "health")),
    ):
        assert path.stat().st_mode & 0o777 == 0o600
    for flags, complaint in (
        ({"nodes": 2}, "--nodes needs the plane's own CA"),
        ({"node_name": "other"}, "the file is for node n2"),
    ):
        with pytest.raises(UsageError, match=complaint):
            prepare(msgspec.structs.replace(options, **flags))
    with pytest.raises(UsageError, match="it has no control group"):
        prepare(options, "control")


def test_root_with_plane_joins_nobody(root: Path) -> None:
    (root / "pki").mkdir()
    (root / "pki" / "ca.key").write_bytes(PEM)
    file = root / "n2.kubeconfig"
    file.write_text(node_config.write(made()))
    with pytest.raises(UsageError, match="has a plane of its own"):
        prepare(PlaneOptions(root=str(root), join=str(file)))
    with pytest.raises(NodeConfigInvalid, match=r"cannot read .*: No such file or directory; make one"):
        prepare(PlaneOptions(root=str(root / "x"), join=str(root / "none")))


def test_settings_joined_node_uses_other_api(root: Path) -> None:
    found = joined_settings(settings(root, node_ip="10.0.0.7"), made())
    assert (found.joined, found.node_name, found.api_url) == (True, "n2", "https://10.0.0.1:6443")
    assert found.node_ip == "10.0.0.7"
    assert joined_settings(settings(root), made(server="https://127.0.0.1:7000")).node_ip == ""
    assert address_towards("127.0.0.1", 1) == address_towards("no.such.host.invalid", 1) == ""


def test_nodes_of_one_machine_have_own_settings(root: Path) -> None:
    plane = settings(root, pod_resources_health_address="127.0.0.1:9", metrics_port=1)
    second = local_settings(plane, 2)
    assert second.root == str(root / "nodes" / "n1-2")
    assert second.runtime_endpoint == f"unix://{second.root}/runtime/runtime.sock"
    assert (second.node_name, second.api_url, second.joined) == ("n1-2", plane.api_url, True)
    assert (second.metrics_port, second.pod_resources.health_address) == (0, "")
    specs = children(PlaneShape(nodes=3))
    assert [spec.instance for spec in specs if spec.actor == NODE] == ["node-2", "node-3"]
    assert not [spec for spec in children(PlaneShape(groups=("control",), nodes=3)) if spec.actor == NODE]


async def test_sockets_with_too_long_paths_are_refused_before_a_start() -> None:
    """The longest socket of a plane, those of its further nodes, and those of simulated plugins."""
    longest = Path("/" + "x" * (SOCKET_PATH_LIMIT - 1 - len("/kubelet/device-plugins/kubelet.sock")))
    layout(str(longest)).check_socket_paths()
    settings(longest).check_node_paths(1)
    with pytest.raises(SettingsInvalid, match="too long for unix sockets"):
        layout(f"{longest}x").check_socket_paths()
    with pytest.raises(SettingsInvalid, match="too long for unix sockets"):
        settings(longest).check_node_paths(2)
    with pytest.raises(SettingsInvalid, match="too long for unix sockets"):
        prepare(PlaneOptions(root=str(longest), node_name="n1", nodes=2))
    with pytest.raises(SettingsInvalid, match="socket path too long"):
        await listen(Mock(), longest / "kubelet/device-plugins/example.com-gpu.sock")


@pytest.mark.parametrize(
    ("count", "runtime", "complaint"),
    [
        (0, "embedded", "use 1 to 32"),
        (33, "embedded", "use 1 to 32"),
        (2, "unix:///c.sock", "cannot share the runtime"),
    ],
)
def test_nodes_out_of_range_are_refused(count: int, runtime: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        check_nodes(count, runtime)


def test_api_server_bind_address_gives_reachable_url(root: Path) -> None:
    here = settings(root)
    assert api_server(here, "") == "https://127.0.0.1:6443"
    assert only_here(api_server(here, ""))
    everywhere = settings(root, bind_address="0.0.0.0", api_names="api.example.com,fd00::1")
    assert api_server(everywhere, "") == "https://api.example.com:6443"
    assert api_server(everywhere, "https://[fd00::1]:443") == "https://[fd00::1]:443"
    assert api_server(settings(root, bind_address="10.0.0.7"), "") == "https://10.0.0.7:6443"
    for wrong in ("http://127.0.0.1", "https://", "https://127.0.0.1:x", "https://127.0.0.1/path", "[fd00::1"):
        with pytest.raises(UsageError, match="is no https://HOST:PORT"):
            api_server(here, wrong)
    with pytest.raises(UsageError, match=r"start the plane with --api-names 10[.]0[.]0[.]8"):
        api_server(here, "10.0.0.8")


def test_node_names_invalid_are_refused() -> None:
    assert checked_name("n" * 52)
    for wrong in ("n" * 53, "N", "a_b"):
        with pytest.raises(UsageError):
            checked_name(wrong)
    assert node_ip("") == node_ip("127.0.0.5") == node_ip("::1") == ""
    assert node_ip("fd00::5") == "fd00::5"
    for wrong in ("0.0.0.0", "host"):
        with pytest.raises(UsageError, match="--node-ip"):
            node_ip(wrong)


def test_node_config_bad_certificate_is_refused(root: Path) -> None:
    with pytest.raises(NodeConfigInvalid, match="the certificates of node n2 cannot be used"):
        preflight.check(made(), "")
    assert base64.b64encode(PEM).decode() in node_config.write(made())


def test_further_node_has_time_to_stop_its_containers(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = list[start.Begin]()
    monkeypatch.setattr(node_group, "load_settings", lambda path: settings(root))
    monkeypatch.setattr("supervisor.startup.join.prepare_node", lambda *_: None)
    monkeypatch.setattr(node_group, "run_prepared", lambda prepared, begin, *_: begun.append(begin))
    monkeypatch.setattr(node_group, "fork", lambda modules: None)
    with pytest.raises(SystemExit):
        node_group.main(["--settings", "settings.json", "--supervisor", "plane", "--instance", "node-2"])
    [begin] = begun
    assert begin.limits.shutdown_s + STOP_CONTAINERS_S < NODE_GRACE_S, "the plane kills it then"
