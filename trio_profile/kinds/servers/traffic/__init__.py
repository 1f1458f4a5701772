"""The requests to a server of models: the client, the two ways to send requests, and the pictures that they show."""
