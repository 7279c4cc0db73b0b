"""What a server knows of a kind: its row, its strategy on the write path, its columns and the rules of its metadata."""
