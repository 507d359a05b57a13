"""From a name or a folder to a module in memory: files, forms, placement, and what can be wrong with them."""
