"""The frame, dialogs and widgets that all screens share."""
