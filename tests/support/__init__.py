"""Stand-ins and makers that tests of several rooms use."""
