"""TrailMem: looks into sessions one after the other, and stops when that changes nothing of what is shown."""
