"""Drawing noise with torch: whole numbers of steps, the same on every device; and the float32 noise of Holdfast 0.1.0."""
