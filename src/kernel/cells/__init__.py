"""The kernel as a package whose modules travel inside the program."""
__path__ = []
