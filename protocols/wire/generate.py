"""Compiles every .proto beside this file: `python -m protocols.wire.generate [--check]`.

The product names methods itself (`methods.py`); tests/support/stubs.py makes clients and servers as users write them.
`--check` compiles into a temporary directory and exits with 1 when the committed code differs.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
FOLDER = HERE.relative_to(ROOT)
MADE = ("*_pb2.py", "*_pb2.pyi")


def generate(target: Path) -> None:
    """Write the generated modules below `target`, in the package folder they belong to."""
    flags = [f"--{kind}_out={target}" for kind in ("python", "pyi")]
    protos = [str(path.relative_to(ROOT)) for path in sorted(HERE.glob("*.proto"))]
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
    paths = (path for pattern in MADE for path in (root / FOLDER).glob(pattern))
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
