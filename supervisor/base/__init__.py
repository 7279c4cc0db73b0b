"""The words of every floor above: errors, options and settings of a plane, and the actors that it consists of."""
