"""Times the types of layer that Table 1 of the paper compares."""
