"""Authorization: the node authorizer, RBAC, and what they share with admission."""
