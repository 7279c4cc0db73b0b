"""tests/setup.sh on a machine of stand-ins: what it installs, and that the machine's own service policy is put back."""

import shutil
import signal
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "setup.sh"
TOOLS = ("chmod", "grep", "mv", "rm", "sleep")
HEAVY = {"chromium", "prometheus", "buildah", "systemd-container"}
pytestmark = pytest.mark.usefixtures("terminal_signals")
APT = """#!/bin/sh
case "$1" in install)
    echo "$@" >> {root}/asked
    {root}/policy-rc.d; echo "policy $?" >> {root}/asked
    {action}
esac
"""


class Machine:
    """A machine on which apt-get does `action` and nothing of what the tests need is installed."""

    def __init__(self, root: Path, action: str = ":") -> None:
        self.root, self.policy = root, root / "policy-rc.d"
        for name in ("id", "apt-get", "venv/bin/traefik", "venv/bin/helm", "venv/bin/uv"):
            self.program(name, APT.format(root=root, action=action) if name == "apt-get" else "#!/bin/sh\necho 0\n")
        for name in TOOLS:
            found = shutil.which(name)
            assert found is not None
            (root / "bin" / name).symlink_to(found)

    def program(self, name: str, text: str) -> None:
        path = self.root / (name if "/" in name else f"bin/{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
        known = {"PATH": f"{self.root}/bin", "VENV": f"{self.root}/venv", "POLICY_RC_D": str(self.policy)}
        return subprocess.Popen(("/bin/sh", SCRIPT, *arguments), env=known | variables, start_new_session=True)

    def asked(self) -> str:
        return (self.root / "asked").read_text()


@pytest.mark.parametrize(
    ("arguments", "variables", "heavy"),
    [((), {}, set()), (("all",), {}, HEAVY), ((), {"CI": "true"}, HEAVY)],
)
def test_setup_installs_heavy_packages_only_when_asked_to(
    tmp_path: Path, arguments: tuple[str, ...], variables: dict[str, str], heavy: set[str]
) -> None:
    machine = Machine(tmp_path)
    assert machine.start(*arguments, **variables).wait(60) == 0
    asked = set(machine.asked().split())
    assert {"containerd", "etcd-server"} <= asked
    assert asked & HEAVY == heavy
    assert not machine.policy.exists()


@pytest.mark.parametrize("number", [0, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_setup_puts_the_machines_policy_back(tmp_path: Path, number: int) -> None:
    machine = Machine(tmp_path, f"kill -{number} $PPID; sleep 1" if number else ":")
    machine.policy.write_text("#!/bin/sh\nexit 42\n")
    machine.policy.chmod(0o700)
    machine.start().wait(60)
    assert "policy 101" in machine.asked()  # no service starts meanwhile
    if number == signal.SIGKILL:
        machine.program("apt-get", "#!/bin/sh\n")
        machine.start().wait(60)
    assert machine.policy.read_text() == "#!/bin/sh\nexit 42\n"
    assert machine.policy.stat().st_mode & 0o777 == 0o700
    assert not machine.policy.with_name("policy-rc.d.saved").exists()
