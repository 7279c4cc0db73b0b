"""Evidence about a target, the conclusion, and their text."""
