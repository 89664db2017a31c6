"""The figures of the Decima paper, measured here and drawn beside the published values.

`paper` has what was published, `figures` how each figure is measured and drawn, `page` the page.
"""
