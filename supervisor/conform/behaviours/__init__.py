"""The behaviours, a script each; `supervisor.conform.scripts` says what a script is."""
