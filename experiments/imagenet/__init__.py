"""ImageNet, end to end."""
