"""Patches of objects: by JSON Patch and JSON Merge Patch, and strategically, by the facts of a kind."""
