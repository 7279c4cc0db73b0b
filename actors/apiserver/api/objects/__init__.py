"""Objects as plain JSON: paths into them, stored bytes, clocks, UIDs."""
