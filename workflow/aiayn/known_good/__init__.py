"""Which facts a number needs, and their allowed values: one table, one judge."""
