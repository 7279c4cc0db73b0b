"""ResourceClaims: generated from templates, released when their pods have finished."""
