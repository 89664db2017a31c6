"""Graph encoder of the learned policy: tensors in, embeddings out. It knows no simulator."""

import decima_packages

decima_packages.check("gnn")
