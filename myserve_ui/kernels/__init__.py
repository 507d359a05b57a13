"""What engine and models both compute with, and which knows neither: compiled loops, linear layers, a lean layer.

And what puts the layers into a module of transformers, and tries them there.
"""
