"""The figures of `nodeplane bench`: each module has run() -> rows. A ratio is taken against a floor run beside it."""
