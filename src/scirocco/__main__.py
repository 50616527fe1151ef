"""``python -m scirocco``."""

from scirocco.command_line.app import main

if __name__ == "__main__":
    main()
