"""The inputs of a study: models, pictures and prompts, questions, and the machine."""
