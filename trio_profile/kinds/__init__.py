"""The kinds of study that have a folder of their own: what is asked, how it is measured, what follows from it."""
