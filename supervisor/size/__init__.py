"""`nodeplane size`: what a load needs, from measured costs."""
