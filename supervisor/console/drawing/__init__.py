"""Lines of text and of the picture, drawn from the model."""
