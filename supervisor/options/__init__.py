"""What a person may ask of a plane: flags become one options struct, and that the settings every actor reads."""
