"""Compiles every .proto beside this file: `python -m protocols.wire.generate [--check]`.

`--check` compiles into a temporary directory and exits with 1 when the committed code differs.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
MADE = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py")


def generate(target: Path) -> None:
    """Write the generated modules below `target`, in the package folder they belong to."""
    protos = [str(path.relative_to(ROOT)) for path in sorted(HERE.glob("*.proto"))]
    flags = [f"--{kind}_out={target}" for kind in ("python", "pyi", "grpc_python")]
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", "-I.", *flags, *protos], cwd=ROOT, check=True, timeout=120
    )


def differences() -> list[str]:
    """Return the names of generated files that are missing, left over, or not what the .proto files give."""
    with tempfile.TemporaryDirectory() as temporary:
        generate(Path(temporary))
        fresh = _made(Path(temporary) / HERE.relative_to(ROOT))
    committed = _made(HERE)
    return sorted(name for name in fresh.keys() | committed.keys() if fresh.get(name) != committed.get(name))


def _made(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for pattern in MADE for path in folder.glob(pattern)}


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
