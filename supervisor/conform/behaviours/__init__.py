"""The behaviours, in chapters by subject; `supervisor.conform.scripts` says what one is."""
