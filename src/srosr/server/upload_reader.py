"""An upload becomes rows, in a child process with bounded memory: a table, an array, or pictures.

What it must know of the model is in the header of the job, which :mod:`srosr.server.upload_header` makes. Files have
private names; messages have the names that the client gave, cleaned.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from . import json_upload
from .jobs import Answer, ChildJob, Refusal, keep_row
from .upload_header import PICTURES


def warm_up() -> None:
    """Import what reading needs."""
    from io import BytesIO

    import pyarrow.parquet  # noqa: F401

    from ..tables.formats import open_rows
    from .picture_upload import restrict_formats

    open_rows("-", stdin=BytesIO(b"a,b\n1,2\n")).read()
    restrict_formats()


def read_upload(job: ChildJob) -> Answer:
    """Read the files of a job: rows as they are in them, not yet imputed and scaled."""
    from .picture_upload import read_pictures
    from .table_upload import read_table

    header = job.header
    job.report("Reading")
    with _name_files(header["files"], header["names"]):
        answer = read_pictures(job) if header["format"] == PICTURES else read_table(job)
        return keep_row(answer, header.get("row"))


@contextmanager
def _name_files(files: Sequence[str], names: Sequence[str]) -> Iterator[None]:
    """Put the names that a client knows in the place of private paths in errors."""
    from ..operations.input_errors import InputError, escape_unprintable
    from ..tables.row_source import ReadError
    from .table_upload import SUFFIXES

    def rename(text: str) -> str:
        known = zip(files, names, strict=True)
        shown = {f"{file}{suffix}": name for file, name in known for suffix in ("", *SUFFIXES.values())}
        pattern = re.compile("|".join(re.escape(path) for path in sorted(shown, key=len, reverse=True)))
        named = pattern.sub(lambda found: shown[found.group()], text)
        return escape_unprintable(named.replace(os.path.dirname(files[0]) + os.sep, ""))

    try:
        yield
    except (InputError, ReadError) as error:
        if isinstance(error.__context__, MemoryError):
            raise MemoryError from None
        raise Refusal(rename(error.message if isinstance(error, InputError) else str(error))) from None
    except OSError as error:
        raise Refusal(f"{names[0]} cannot be read: {error.strerror or 'it is damaged'}.") from None
    except (Refusal, MemoryError):
        raise
    except Exception as error:
        # Readers turn what libraries raise into sentences. Should one be missing, the client still gets one.
        from traceback import print_exception

        print_exception(error)
        raise Refusal(f"{names[0]} cannot be read: it is damaged or not of the kind it is said to be.") from None


#: What a reader can do.
JOBS = {"read": read_upload, **json_upload.JOBS}
