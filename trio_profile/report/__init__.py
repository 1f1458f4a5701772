"""Reports: their blocks, and the renderers. html is the page, terminal the terminal, markdown and latex are text."""
