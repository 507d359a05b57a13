"""What a CPU gets: quicker layers, numbers of rows that agree, threads."""
