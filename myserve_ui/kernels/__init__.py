"""What engine and models both compute with, and which knows neither: compiled loops, linear layers, a lean layer."""
