"""An example DRA driver by public protocols only: registration, DRA and health over gRPC, slices in the API."""
