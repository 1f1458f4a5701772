"""How `scripts/train_pocket` trains the pocket model. It is no part of the installed packages."""
