"""Everything that touches torch and fairseq. Importing this package imports neither; its modules do."""
