"""Objects as plain JSON: steps into them, their names, their times."""
