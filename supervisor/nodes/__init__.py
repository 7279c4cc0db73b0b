"""Nodes beyond the first: passes by which they join an API, on another machine or on this one."""
