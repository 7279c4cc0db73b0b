"""Commands that take --kubeconfig reach an API with the token of a service account, renewed in its file."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import run_command
from tests.support.plane import Plane, stop, until

NODES = [f"worker-{n}" for n in range(2)]
PROFILE = {"name": "two", "groups": [{"name": "worker", "count": 2}]}


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """A plane with the service account `fleet`, an administrator."""
    with Plane() as started:
        started.kubectl("create", "serviceaccount", "fleet")
        started.kubectl(
            "create", "clusterrolebinding", "fleet", "--clusterrole=cluster-admin", "--serviceaccount=default:fleet"
        )
        yield started


def kubeconfig(plane: Plane, user: dict[str, Any], **cluster: object) -> str:
    """Write a kubeconfig into a folder of its own, beside the CA; return its path."""
    folder = plane.root / "access"
    folder.mkdir(exist_ok=True)
    (folder / "ca.crt").write_bytes((plane.root / "pki" / "ca.crt").read_bytes())
    server = plane.kubectl("config", "view", "-o", "jsonpath={.clusters[0].cluster.server}").strip()
    config = {
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority": "ca.crt", **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (folder / "config").write_text(json.dumps(config))
    return str(folder / "config")


def token(plane: Plane) -> str:
    return plane.kubectl("create", "token", "fleet").strip()


def test_fleet_with_the_token_of_a_service_account_runs(plane: Plane) -> None:
    access = kubeconfig(plane, {"tokenFile": "token"}, **{"tls-server-name": "kubernetes.default.svc"})
    profile, held = plane.root / "profile.yaml", Path(access).parent / "token"
    profile.write_text(json.dumps(PROFILE))
    held.write_text(token(plane))
    process = plane.start("fleet", "run", str(profile), "--kubeconfig", access, log="fleet.log")
    until("the nodes are ready", lambda: "2 nodes registered" in (plane.root / "fleet.log").read_text())
    stop(process)
    held.write_text(token(plane))
    assert "groups:" in plane.nodeplane("fleet", "record", "--kubeconfig", access)
    plane.nodeplane("fleet", "delete", "--kubeconfig", access)
    assert not {node["metadata"]["name"] for node in plane.list("node")} & set(NODES)


def test_commands_that_read_take_the_token(plane: Plane) -> None:
    access = kubeconfig(plane, {"token": token(plane)})
    assert "no driver has published" in plane.nodeplane("devices", "--patched", "--kubeconfig", access)
    assert "no pod is called" in refusal(plane, "why", "pod/none", "--kubeconfig", access)


def refusal(plane: Plane, *words: str) -> str:
    """Run a command that fails; return its error, which is one line."""
    done = run_command(words, plane.environment, 60)
    assert done.returncode
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_missing_ca_is_named(plane: Plane) -> None:
    access = kubeconfig(plane, {"token": token(plane)}, **{"certificate-authority": "none.crt"})
    assert f"cannot use {plane.root}/access/none.crt: " in refusal(plane, "fleet", "delete", "--kubeconfig", access)


def test_unknown_token_is_an_error_that_does_not_show_it(plane: Plane) -> None:
    access = kubeconfig(plane, {"token": "not-a-token"})
    for command in (("fleet", "delete"), ("devices", "--patched"), ("why", "pod/none")):
        printed = refusal(plane, *command, "--kubeconfig", access)
        assert "Unauthorized" in printed
        assert "not-a-token" not in printed


COMMANDS = (
    ("fleet", "run", "gpus"),
    ("fleet", "record"),
    ("fleet", "delete"),
    ("devices", "--patched"),
    ("devices", "--why", "none"),
    ("why", "pod/none"),
    ("dra-driver",),
)


@pytest.mark.parametrize("command", COMMANDS)
def test_exec_plugin_is_rejected(plane: Plane, command: tuple[str, ...]) -> None:
    access = kubeconfig(plane, {"exec": {"command": "/bin/false"}})
    assert "`exec` of user 'u' is not supported" in refusal(plane, *command, "--kubeconfig", access)
