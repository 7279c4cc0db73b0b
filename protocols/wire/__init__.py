"""Wire formats of others: our own .proto files, and the code generated from them (see generate.py)."""
