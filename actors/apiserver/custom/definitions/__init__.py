"""CustomResourceDefinitions: validation, accepted names, the controller of their conditions."""
