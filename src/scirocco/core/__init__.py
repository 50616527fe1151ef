"""What everything else stands on: registered parts, Ctrl-C, the clock."""
