"""`[tool.nodeplane]` of the project's pyproject.toml: which plane its tests get."""

import tomllib
from pathlib import Path
from typing import Annotated

import msgspec
import pytest

from supervisor.base.groups import MAX_NODES

FILE = "pyproject.toml"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Keys of the table; those left out are the defaults of `nodeplane up`."""

    nodes: Annotated[int, msgspec.Meta(ge=1, le=MAX_NODES)] = 1
    runtime: str = ""
    """`embedded` or `unix:///PATH` of a CRI socket."""
    gates: dict[str, bool] = {}
    """Feature gates by upstream's names."""
    flags: tuple[str, ...] = ()
    """Further flags of `nodeplane up`."""

    def words(self) -> list[str]:
        """Return the flags of `nodeplane up`."""
        gates = ",".join(f"{name}={str(on).lower()}" for name, on in self.gates.items())
        words = [f"--nodes={self.nodes}"]
        words += [f"--runtime={self.runtime}"] if self.runtime else []
        words += [f"--feature-gates={gates}"] if gates else []
        return [*words, *self.flags]


def settings_of(directory: Path) -> Settings:
    """Read the table; a project without one gets the defaults. Raises pytest.UsageError for keys it does not have."""
    path = directory / FILE
    try:
        table = tomllib.loads(path.read_text()).get("tool", {}).get("nodeplane", {})
        return msgspec.convert(table, Settings)
    except FileNotFoundError:
        return Settings()
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise pytest.UsageError(f"{path}: [tool.nodeplane]: {error}") from None
