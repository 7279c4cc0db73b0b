"""The supervision tree: state machine of a child, state machine of the forkserver's liveness, and what acts on both."""
