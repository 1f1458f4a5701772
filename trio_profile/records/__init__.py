"""What is kept: the study, the environment, the measurements, and the store that holds them. No torch here."""
