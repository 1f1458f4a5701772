"""`python -m trio_profile`: the command line without its script."""

from trio_profile.cli import main

if __name__ == "__main__":
    main()
