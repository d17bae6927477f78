"""Web push: tells the devices of people what waits for them. Starts only where it is configured."""
