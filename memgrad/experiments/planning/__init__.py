"""Planning: which runs a spec asks for, and which run groups they are trained in.

`spec` reads the TOML file, `plan` expands it to runs and groups them, and `preview` estimates what they cost.
"""
