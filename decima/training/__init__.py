"""Training the learned scheduler: configuration, episodes, credit, updates."""
