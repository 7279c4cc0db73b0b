"""Values, operators and functions of CEL, with what they cost; independent of expressions that use them."""
