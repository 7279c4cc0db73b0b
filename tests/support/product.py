"""The product's modules, which tests of house rules read."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("actors", "protocols", "supervisor")
TEMPLATES = ROOT / "supervisor" / "begin" / "templates"
"""What `nodeplane new` writes belongs to its author: it uses no part of ours, nor our rules."""


def product_modules() -> list[Path]:
    found = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))
    return [path for path in found if not path.is_relative_to(TEMPLATES)]
