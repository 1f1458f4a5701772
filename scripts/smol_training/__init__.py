"""How `smol` was trained: what joins a pretrained tower to a pretrained language model."""
