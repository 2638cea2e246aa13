"""Where run groups are trained: on the cores of this machine (`local`), or on a Ray cluster (`ray`).

`engine` says what an engine is and has what they share, and a `parcel` is a problem on its way to other machines.
"""
