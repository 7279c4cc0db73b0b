"""What objects of the served kinds look like: fields, types, keys of lists. Read at the first need, not at start."""
