"""What a study runs on: models, pictures and prompts, questions, and the machine."""
