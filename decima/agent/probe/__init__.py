"""Supervised checks of what the encoder can express, without any scheduling.

`questions` draws DAGs and their answers, `learn` fits an encoder with a linear readout to them,
`study` compares the encoder with its ablation.
"""
