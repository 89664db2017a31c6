"""The learned scheduler: what it sees, its network, how it acts and how it is trained."""
