"""Tables of a user's own, row batch by row batch: text, Parquet and arrays.

`open_rows` opens a file; what it returns hands out :class:`Rows`. Inside: `rows` (what all sources do alike) →
`input_file` (the file itself) → `columns` (which column is what) → `values` (what a cell means) → `label_file`,
`text_blocks` and `text`, `parquet`, `npy`, `named_arrays` and `arrays` (the formats) → `open` (which of them).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
