"""What is known of a target, the conclusion, and their words."""
