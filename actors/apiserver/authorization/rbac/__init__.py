"""Role-based access control: parse roles and bindings, evaluate requests against them."""
