"""The `decima` command: one module for each subcommand."""
