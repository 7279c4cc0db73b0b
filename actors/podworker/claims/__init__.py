"""ResourceClaims of pods: found in the API, made usable before the sandbox, given back after the containers."""
