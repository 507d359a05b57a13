"""The Benchmark tab and the roofline."""
