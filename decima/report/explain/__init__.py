"""Explanations of a learned policy's decisions: probabilities, and the inputs that change them."""
