"""Pictures of terminals that load nothing from elsewhere."""

import re

FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""The fonts that rich and Textual would load."""


def self_contained(picture: str) -> str:
    """Return an SVG of rich or Textual with fonts that every machine has."""
    return FONT.sub("", picture).replace("Fira Code", "ui-monospace, Menlo, Consolas")
