"""Study of the encoder on critical paths: `python -m benchmarks.critical_path`, two minutes.

`questions` draws DAGs and their answers, `learn` fits an encoder with a linear readout to them,
`study` compares the encoder with its ablation.
"""
