"""What users of other packages do today when a sample may belong to no known class, one function per recipe.

``scalings`` prepares features, ``recipes`` combines a detector and a classifier, ``extreme_values`` and ``networks``
call packages that do both, and ``contestants`` lists all of them with the package that each needs.
"""
