"""Models of other libraries as parts of a target."""
