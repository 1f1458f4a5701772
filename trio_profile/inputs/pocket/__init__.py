"""The pocket model's world: rendered pictures, questions about them, and how the model was trained on both."""
