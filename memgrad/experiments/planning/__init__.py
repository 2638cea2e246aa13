"""Planning: which runs a spec asks for, and which run groups they are trained in.

`spec` reads the TOML file and `methods` its methods; `complaints` words what is wrong with it, and `example` has one to
start from. `plan` expands it to `runs` and groups them, and `preview` estimates what they cost. A run has a `recipe`,
its optimizer with all options that count for its digest, which may be a user's `own_code`, and a problem, which a
`problem_choice` names.
"""
