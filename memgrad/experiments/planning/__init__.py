"""Planning: which runs a spec asks for, and which run groups they are trained in."""
