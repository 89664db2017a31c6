"""Supervised checks of what the encoder can express, without any scheduling.

`decima.probe.questions` draws DAGs and their answers, `decima.probe.learn` fits an encoder with a
linear readout to them, `decima.probe.study` compares the encoder with its ablation.
"""
