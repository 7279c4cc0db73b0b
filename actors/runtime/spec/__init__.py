"""From a CRI container configuration to what the shim of that container executes."""
