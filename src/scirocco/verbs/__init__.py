"""What a user calls to run chains: parts are put together, described and handed to the runner."""
