"""`smol`: a pretrained language model and a pretrained tower, both from the package index, and what joins them."""
