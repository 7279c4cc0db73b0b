"""Custom resources of this API server: their definitions' conditions, and the kinds it serves because of them."""
