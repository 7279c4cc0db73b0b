"""Planes for tests: `nodeplane test -- COMMAND`, and what pytest-nodeplane is made of."""
