"""The paper's theory, tested: its bound against the divergence that removing tokens causes, and saliency by depth."""
