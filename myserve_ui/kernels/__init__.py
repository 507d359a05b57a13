"""Quick loops over numbers for a CPU, which the engine and the models share; they know neither."""
