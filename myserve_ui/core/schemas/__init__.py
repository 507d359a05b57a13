"""What a JSON schema may ask for, and how it is handed to the grammar library."""
