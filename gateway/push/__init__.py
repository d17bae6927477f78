"""Send web push notifications of pending requests to people's devices; runs only if configured."""
