"""Upper bounds on the cost of expressions, found without running them."""
