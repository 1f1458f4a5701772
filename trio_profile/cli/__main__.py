"""`python -m trio_profile.cli`: the command line without its script."""

from trio_profile.cli import main

main()
