"""A kind as a server knows it: its row, its strategy on the write path, its columns and the rules of its metadata."""
