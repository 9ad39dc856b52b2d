"""The verbs (subcommands of `aiayn`) of the wing `packs`, an optional package."""
