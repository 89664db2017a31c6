"""The learned scheduler: its observations, its network, its plans and their recording."""
