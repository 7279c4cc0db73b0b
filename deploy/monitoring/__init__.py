"""What to watch of a plane: one list of figures, from which rules, board and page are made."""
