"""Custom resources: definitions, schemas, rules, and the resources made of them."""
