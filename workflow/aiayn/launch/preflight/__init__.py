"""What would go wrong, before anything is started."""
