"""Import the product with one mistake in it.

A mutant is a change of a file's text. A finder before all others compiles the changed text, so that nothing is written
to disk and no bytecode of the file as it is gets loaded.
"""

import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, ModuleType

from msgspec import Struct

ROOT = Path(__file__).parents[3]


class Mutant(Struct, frozen=True):
    """One mistake: `old` is exactly once in `file`, `new` takes its place."""

    name: str
    file: str
    """Below the checkout."""
    old: str
    new: str
    mistake: str
    """One line, as a reviewer would say it."""
    profile: str = "store"
    """The fastest one that has what the mistake is in."""
    commit: str = ""
    """The commit that mended it, for a bug from this project's own history."""

    @property
    def module(self) -> str:
        return self.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


class StaleMutant(Exception):
    """The file no longer has the text that a mutant replaces, or has it twice: write the mutant anew."""


class TooLate(Exception):
    """The mutant's module is imported already: install the mutant first."""


def changed(mutant: Mutant, text: str) -> str:
    """Return the file's text with the mistake.

    Raises:
        StaleMutant: `mutant.old` is not exactly once in it.
    """
    if text.count(mutant.old) != 1:
        raise StaleMutant(f"{mutant.name}: its old text is {text.count(mutant.old)} times in {mutant.file}")
    return text.replace(mutant.old, mutant.new)


def install(mutant: Mutant) -> None:
    """Have the mutant's module imported with the mistake.

    Raises:
        StaleMutant: see `changed`.
        TooLate: the module is imported.
    """
    if mutant.module in sys.modules:
        raise TooLate(f"{mutant.name}: {mutant.module} is imported already")
    path = ROOT / mutant.file
    sys.meta_path.insert(0, _Finder(mutant.module, path, changed(mutant, path.read_text())))


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: Path, text: str) -> None:
        super().__init__(name, str(path))
        self._text = text

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = compile(self._text, self.path, "exec", dont_inherit=True)
        return code


class _Finder:
    def __init__(self, name: str, path: Path, text: str) -> None:
        self._name, self._path, self._text = name, path, text

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        loader = _Loader(fullname, self._path, self._text)
        return importlib.util.spec_from_file_location(fullname, self._path, loader=loader)
