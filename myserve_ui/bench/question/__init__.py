"""What a benchmark is asked, and how the command line, the page and a script say it."""
