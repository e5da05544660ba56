"""What users of other packages do today where a sample may belong to no known class, one function a recipe.

``scalings`` prepares features, ``recipes`` puts a detector and a classifier together, ``extreme_values`` and
``networks`` call packages that do both, and ``contestants`` lists all with the package that each needs.
"""
