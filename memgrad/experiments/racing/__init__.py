"""Racing: which method, at which learning rate, decided by as few runs as the evidence allows."""
