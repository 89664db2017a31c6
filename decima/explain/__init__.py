"""Why a learned policy took one decision: its choices, their probabilities, what made them so."""
