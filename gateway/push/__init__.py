"""Send web push notifications of pending requests to people's devices, if push is configured."""
