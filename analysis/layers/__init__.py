"""Times the layers of Table 1."""
