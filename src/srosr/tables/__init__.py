"""Users' files, read batch by batch: text tables, Parquet, arrays and pictures; and what a model remembers of them.

:func:`open_rows` opens a file and returns a :class:`RowSource`, which yields :class:`Rows`. The modules in the order of
their imports: `row_source` (the file itself, and what all sources have in common) → `columns` (the role of each
column) → `cells` (the meaning of a cell) → `matlab` and `arrays` (files of arrays) → `text_blocks`, `text_table`,
`parquet`, `array_rows` (rows of each format) → `formats` (chooses one; a table in many files). Beside them:
`picture_rows` (pictures as rows), `feature_recipe` (how a file becomes features), `data_overview` (what is in
it), `decision_files`.
"""
