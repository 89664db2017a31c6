"""What a Spark cluster needs of us, and what it does for us beside playing: our archive, and event
logs read where they lie."""
