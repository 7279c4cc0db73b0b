"""Compiles every .proto beside this file: `python -m protocols.wire.generate [--check]`.

The product names methods itself (`methods.py`); gRPC's stubs are for tests, where programs are written as users do.
`--check` compiles into a temporary directory and exits with 1 when the committed code differs.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
FOLDER, STUBS_FOLDER = HERE.relative_to(ROOT), Path("tests/support/stubs")
STUBS = (
    "deviceplugin_v1beta1",
    "dra_v1",
    "dra_v1beta1",
    "drahealth_v1",
    "drahealth_v1alpha1",
    "pluginregistration_v1",
    "podresources_v1",
)
"""Services that have stubs."""
MADE = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py")


def generate(target: Path) -> None:
    """Write the generated modules below `target`, in the package folders they belong to."""
    flags = [f"--{kind}_out={target}" for kind in ("python", "pyi")]
    _compile(flags, [str(path.relative_to(ROOT)) for path in sorted(HERE.glob("*.proto"))])
    with tempfile.TemporaryDirectory() as temporary:
        _compile([f"--grpc_python_out={temporary}"], [str(FOLDER / f"{name}.proto") for name in STUBS])
        (target / STUBS_FOLDER).mkdir(parents=True, exist_ok=True)
        for made in (Path(temporary) / FOLDER).iterdir():
            (target / STUBS_FOLDER / made.name).write_bytes(made.read_bytes())


def _compile(flags: list[str], protos: list[str]) -> None:
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", *flags, *protos]
    subprocess.run(command, cwd=ROOT, check=True, timeout=120)


def differences() -> list[str]:
    """Return the names of generated files that are missing, left over, or not what the .proto files give."""
    with tempfile.TemporaryDirectory() as temporary:
        generate(Path(temporary))
        fresh = _made(Path(temporary))
    committed = _made(ROOT)
    return sorted(name for name in fresh.keys() | committed.keys() if fresh.get(name) != committed.get(name))


def _made(root: Path) -> dict[str, bytes]:
    folders = (root / FOLDER, root / STUBS_FOLDER)
    paths = (path for folder in folders for pattern in MADE for path in folder.glob(pattern))
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


def _main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        changed = differences()
        for name in changed:
            print(f"{name} is not what the .proto files give; run: python -m protocols.wire.generate", file=sys.stderr)
        return 1 if changed else 0
    if arguments:
        print("usage: python -m protocols.wire.generate [--check]", file=sys.stderr)
        return 2
    generate(ROOT)
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
